// Following a message when its events are lost: the stored status is what counts.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { RunEvent } from '../../src/domain/events.ts';
import { follow, type Followed } from '../../src/http/follow.ts';
import type { LoggedEvent, RunEventLog } from '../../src/ports/events.ts';
import { KEY, startHttpApp, type HttpApp } from '../fakes/http-app.ts';
import { silentLog } from '../fakes/log.ts';

let http: HttpApp;
beforeEach(async () => {
  http = await startHttpApp();
});
afterEach(() => http.close());

const message = { id: 'm1', conversation: 'webhook:c1' };

async function post(text: string): Promise<void> {
  const response = await fetch(`${http.url}/webhook/webhook`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'idempotency-key': 'm1' },
    body: JSON.stringify({ conversation: 'c1', text }),
  });
  expect(response.status).toBe(202);
}

/** An event log whose readers get what the test says, and nothing of what is published. */
function lossy(script: () => AsyncIterable<LoggedEvent>): RunEventLog {
  return {
    ...http.storage.events,
    subscribe: async () => Object.assign(script(), { close: async () => undefined }),
  };
}

async function answerOf(events: RunEventLog, pollMs: number): Promise<Followed[]> {
  const items: Followed[] = [];
  const signal = AbortSignal.timeout(10_000);
  const storage = { events, reader: http.storage.reader };
  await using follower = await follow({ storage, message, signal, log: silentLog, pollMs });
  await post('hello');
  for await (const item of follower.items(false)) items.push(item);
  return items;
}

const agentEvent = (type: 'agent_start' | 'agent_end', run: string): RunEvent => {
  const base = { conversation: 'webhook:c1', run, turn: 0 };
  if (type === 'agent_start') return { ...base, type, messages: ['another'] };
  const usage = { input: 0, output: 0, cached: 0 };
  return { ...base, type, status: 'done', reply: '', stop: 'stop', usage, turns: 1 };
};

const reading = (next: () => Promise<IteratorResult<LoggedEvent>>): AsyncIterable<LoggedEvent> => ({
  [Symbol.asyncIterator]: () => ({ next }),
});

test.each([
  ['never comes', () => reading(() => new Promise(() => {}))],
  ['ends early', () => reading(async () => ({ done: true, value: undefined }))],
  ['breaks', () => reading(() => Promise.reject(new Error('connection lost')))],
])('a subscription that %s: the status is read now and then', async (_name, script) => {
  const items = await answerOf(lossy(script), 20);
  expect(items).toMatchObject([{ answer: { state: 'done', reply: { text: 'You said: hello' } } }]);
});

test.each([
  ['a resync', { id: '1', resync: true }],
  ['the end of a run whose start was lost', { id: '1', event: agentEvent('agent_end', 'r1') }],
] as [string, LoggedEvent][])('%s is a reason to look', async (_name, event) => {
  const script = async function* (): AsyncGenerator<LoggedEvent> {
    await vi.waitFor(async () =>
      expect(await http.storage.reader.status('webhook:c1', 'm1')).toMatchObject({ state: 'done' }),
    );
    yield event;
    await new Promise(() => {});
  };
  // So seldom that only the event can be the reason.
  const items = await answerOf(lossy(script), 60_000);
  expect(items.at(-1)).toMatchObject({ answer: { state: 'done' } });
});

test("another run's start tells that one's own is over", async () => {
  const script = async function* (): AsyncGenerator<LoggedEvent> {
    const status = await vi.waitFor(async () => {
      const read = await http.storage.reader.status('webhook:c1', 'm1');
      expect(read).toMatchObject({ state: 'done' });
      return read;
    });
    const own = { ...agentEvent('agent_start', status?.run ?? ''), messages: ['m1'] } as RunEvent;
    yield { id: '1', event: own };
    yield { id: '2', event: agentEvent('agent_start', 'next') };
    await new Promise(() => {});
  };
  const items = await answerOf(lossy(script), 60_000);
  expect(items).toMatchObject([{ event: { type: 'agent_start' } }, { answer: { state: 'done' } }]);
});

test('a status that cannot be read is read again', async () => {
  let failures = 3;
  const reader = {
    ...http.storage.reader,
    status: (...args: Parameters<typeof http.storage.reader.status>) =>
      failures-- > 0 ? Promise.reject(new Error('away')) : http.storage.reader.status(...args),
  };
  const storage = { events: lossy(() => reading(() => new Promise(() => {}))), reader };
  const signal = AbortSignal.timeout(10_000);
  await using follower = await follow({ storage, message, signal, log: silentLog, pollMs: 10 });
  await post('hello');
  const items: Followed[] = [];
  for await (const item of follower.items(true)) items.push(item);
  expect(items).toMatchObject([{ answer: { state: 'done' } }]);
  expect(failures).toBeLessThan(0);
});

test('the signal ends it without an answer', async () => {
  const controller = new AbortController();
  const { storage } = http;
  await using follower = await follow({ storage, message, signal: controller.signal, log: silentLog });
  await post('hold');
  await vi.waitFor(() => expect(http.runs).toBe(1));
  const items: string[] = [];
  const following = (async () => {
    for await (const item of follower.items(false)) items.push('answer' in item ? 'answer' : item.event.type);
  })();
  await vi.waitFor(() => expect(items).toContain('message_update'));
  controller.abort();
  await following;
  expect(items).not.toContain('answer');
});
