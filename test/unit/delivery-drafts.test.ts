// Streamed replies: what a channel is shown of a run, and when. On a real event log; time is the test's own.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createDrafts } from '../../src/delivery/drafts.ts';
import type { RunEventBody } from '../../src/domain/events.ts';
import type { Channel, LiveRun, LiveState } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { acceptOn } from '../fakes/accept.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { recordingLog } from '../fakes/log.ts';
import { openTestStorage } from '../fakes/storage.ts';

const { later } = useCleanups();
const { later: atEnd } = useCleanups(afterAll);

let storage: Storage;
beforeAll(async () => {
  storage = await openTestStorage(atEnd);
});

/** Waits end when the test says so. */
function createTestClock() {
  let waiting: (() => void)[] = [];
  const clock: Clock = {
    now: () => 0,
    sleep: (_ms, signal) =>
      new Promise((resolve, reject) => {
        waiting.push(resolve);
        signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      }),
  };
  return {
    clock,
    waits: () => waiting.length,
    tick() {
      const all = waiting;
      waiting = [];
      for (const resolve of all) resolve();
    },
  };
}

let serial = 0;

async function setUp({ live: hasLive = true } = {}) {
  const time = createTestClock();
  const { log, lines } = recordingLog();
  const seen: string[] = [];
  const states: LiveState[] = [];
  let most = 0;
  let under = 0;
  let work: (what: string) => Promise<void> = async () => {};
  const call = (what: string) => {
    seen.push(what);
    most = Math.max(most, ++under);
    return work(what).finally(() => under--);
  };
  const name = (run: LiveRun) => `${run.id} for ${run.messages.join('+')}`;
  const channel: Pick<Channel, 'live'> = {
    ...(hasLive && {
      live: {
        intervalMs: 100,
        started: (run) => call(`started ${name(run)}`),
        update: (_run, state) => {
          states.push(state);
          return call(`update ${JSON.stringify(state)}`);
        },
        ended: (run) => call(`ended ${name(run)}`),
      },
    }),
  };
  const channels = new Map([['acc', channel as Channel]]);
  const make = () =>
    createDrafts({ ...storage, channels: () => channels, clock: time.clock, log, checkMs: 600_000 });
  const drafts = make();
  later(() => drafts.close());
  const { accept } = acceptOn(storage);
  const chat = `c${++serial}`;
  const conversation = `acc:${chat}`;
  const say = (id: string, by = drafts) =>
    by.watching(accept)('acc', {
      id: `${chat}-${id}`,
      chat,
      sender: { id: 'ada' },
      text: 'hello',
      mentioned: true,
      replyTo: { key: chat, address: { chat } },
    });
  const publish = (run: string, ...events: RunEventBody[]) =>
    storage.events.publish(
      conversation,
      events.map((event) => Object.assign({ conversation, run, turn: 1 }, event)),
    );
  return {
    ...time,
    drafts,
    make,
    lines,
    seen,
    states,
    most: () => most,
    whenCalled: (next: typeof work) => (work = next),
    conversation,
    say,
    publish,
    start: (run: string, ...ids: string[]) =>
      publish(run, { type: 'agent_start', messages: ids.map((id) => `${chat}-${id}`) }),
    end: (run: string) =>
      publish(run, {
        type: 'agent_end',
        status: 'done',
        reply: 'done',
        stop: 'stop',
        usage: { input: 0, output: 0, cached: 0 },
        turns: 1,
      }),
    chat,
  };
}

const delta = (text: string): RunEventBody => ({ type: 'message_update', delta: text });
const message: RunEventBody = { type: 'message_start', role: 'assistant' };
const toolStart = (id: string, name: string): RunEventBody => ({
  type: 'tool_execution_start',
  call: { type: 'tool_use', id, name, input: {} },
});
const toolEnd = (id: string, name: string): RunEventBody => ({
  type: 'tool_execution_end',
  call_id: id,
  name,
  result: { type: 'tool_result', tool_use_id: id, content: [] },
  duration_ms: 1,
});

describe('a run is shown', () => {
  test('one update at a time, the newest text, and no sooner than the interval', async () => {
    const { say, start, publish, end, states, most, tick, waits, whenCalled } = await setUp();
    const gate = Promise.withResolvers<void>();
    whenCalled((what) => (what.startsWith('update') ? gate.promise : Promise.resolve()));
    await say('a');
    await start('r1', 'a');
    await publish('r1', message, delta('One'));
    await vi.waitFor(() => expect(states).toHaveLength(1));
    // While an update is under way, others wait, and only the newest of them is shown.
    for (const word of [' two', ' three', ' four']) await publish('r1', delta(word));
    gate.resolve();
    await vi.waitFor(() => expect(waits()).toBe(1));
    expect(states).toEqual([{ text: 'One' }]);
    await publish('r1', delta(' five'));
    tick();
    await vi.waitFor(() => expect(states.at(-1)).toEqual({ text: 'One two three four five' }));
    expect(states.length).toBeLessThanOrEqual(3);
    expect(most()).toBe(1);
    await end('r1');
  });

  test('with the tool that runs, while it runs', async () => {
    const { say, start, publish, states, tick, waits } = await setUp();
    const shows = async (state: LiveState) => {
      await vi.waitFor(() => expect(states.at(-1)).toEqual(state));
      await vi.waitFor(() => expect(waits()).toBe(1));
      tick();
    };
    await say('a');
    await start('r1', 'a');
    await publish('r1', message, delta('Let me look.'));
    await shows({ text: 'Let me look.' });
    await publish('r1', toolStart('1', 'search'));
    await shows({ text: 'Let me look.', tool: 'search' });
    await publish('r1', toolStart('2', 'fetch'));
    await shows({ text: 'Let me look.', tool: 'fetch' });
    await publish('r1', toolEnd('2', 'fetch'));
    await shows({ text: 'Let me look.', tool: 'search' });
    await publish('r1', toolEnd('1', 'search'));
    await shows({ text: 'Let me look.' });
    // The next message takes the place of the first one, and a repeated one that of its beginning.
    await publish('r1', message, delta('It is'));
    await shows({ text: 'It is' });
    await publish('r1', { type: 'message_reset' }, delta('It was'));
    await shows({ text: 'It was' });
  });

  test('from its start to its end, and the next one after it', async () => {
    const { say, start, publish, end, seen, chat } = await setUp();
    await say('a');
    await start('r1', 'a');
    await publish('r1', { type: 'steered', messages: [`${chat}-b`] });
    await say('b');
    await end('r1');
    await vi.waitFor(() => expect(seen.at(-1)).toBe(`ended r1 for ${chat}-a`));
    await say('c');
    await start('r2', 'c');
    await end('r2');
    await vi.waitFor(() => expect(seen.at(-1)).toBe(`ended r2 for ${chat}-c`));
    expect(seen.filter((what) => what.startsWith('started'))).toHaveLength(2);
  });

  test('as the same one, when another worker takes it over', async () => {
    const { say, start, publish, end, seen, states, tick, waits, chat } = await setUp();
    await say('a');
    await start('r1', 'a');
    await publish('r1', message, delta('One two'));
    await vi.waitFor(() => expect(states).toHaveLength(1));
    await vi.waitFor(() => expect(waits()).toBe(1));
    tick();
    // Its worker died; the run is claimed again, and begins its message anew.
    await publish(
      'r1',
      { type: 'agent_start', messages: [`${chat}-a`], resumed: true },
      message,
      delta('Once'),
    );
    await vi.waitFor(() => expect(states.at(-1)).toEqual({ text: 'Once' }));
    await end('r1');
    await vi.waitFor(() => expect(seen.at(-1)).toBe(`ended r1 for ${chat}-a`));
    expect(seen.filter((what) => what.startsWith('started'))).toHaveLength(1);
  });

  test('by a process that is given the message once more, after the one that showed it died', async () => {
    const { say, start, publish, drafts, make, seen, states, chat } = await setUp();
    await say('a');
    await start('r1', 'a');
    await vi.waitFor(() => expect(seen).toHaveLength(1));
    await drafts.close();
    const next = make();
    later(() => next.close());
    expect(await say('a', next)).toMatchObject({ status: 'duplicate' });
    await publish('r1', message, delta('still here'));
    await vi.waitFor(() => expect(states.at(-1)).toEqual({ text: 'still here' }));
    expect(seen.filter((what) => what === `started r1 for ${chat}-a`)).toHaveLength(2);
  });
});

describe('what fails or is in the way', () => {
  test('an update that fails is reported, and the next one is tried', async () => {
    const { say, start, publish, end, lines, seen, states, tick, waits, whenCalled } = await setUp();
    whenCalled((what) => (what.includes('One') ? Promise.reject(new Error('refused')) : Promise.resolve()));
    await say('a');
    await start('r1', 'a');
    await publish('r1', message, delta('One'));
    await vi.waitFor(() => expect(waits()).toBe(1));
    await publish('r1', message, delta('Two'));
    tick();
    await vi.waitFor(() => expect(states.at(-1)).toEqual({ text: 'Two' }));
    await end('r1');
    await vi.waitFor(() => expect(seen.at(-1)).toContain('ended'));
    expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
  });

  test('a channel that shows nothing is not followed; after close() nobody is', async () => {
    const subscribe = vi.spyOn(storage.events, 'subscribe');
    later(() => subscribe.mockRestore());
    const silent = await setUp({ live: false });
    expect(await silent.say('a')).toMatchObject({ status: 'queued' });
    const closed = await setUp();
    await closed.drafts.close();
    await closed.drafts.close();
    expect(await closed.say('a')).toMatchObject({ status: 'queued' });
    expect(subscribe).not.toHaveBeenCalled();
  });

  test('close() ends what is shown', async () => {
    const { say, start, publish, drafts, seen, states } = await setUp();
    await say('a');
    await start('r1', 'a');
    await publish('r1', message, delta('One'));
    await vi.waitFor(() => expect(states).toHaveLength(1));
    await drafts.close();
    expect(seen.at(-1)).toContain('ended r1');
  });
});
