// A cancel through the API is felt in whatever the run is at, also when the run is in another process than the one that
// was told. The time is taken from the request to the run's end as a reader of the events sees it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer, type ScriptedReply } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { readEvents } from '../fakes/sse-client.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';

const ROUNDS = 3;
/** Far below what it would take without the cancel (a back-off of 30 s, a tool that never ends), far above a busy machine's pauses. */
const LIMIT_MS = 3_000;

/** One tool that ends at once, and two that never do: one listens to its signal, the other doesn't. */
const TOOLS = {
  'quick.ts': `async execute() { return 'quick was here'; },`,
  'listens.ts': `execute: (_args, { signal, progress }) => new Promise((_resolve, reject) => {
    progress('at work');
    signal.addEventListener('abort', () => reject(signal.reason));
  }),`,
  'deaf.ts': `execute: (_args, { progress }) => { progress('at work'); return new Promise(() => {}); },`,
};

interface Phase {
  name: string;
  reply: ScriptedReply;
  /** What tells that the run is there: a request, a log line, or an event of this name. */
  at: 'request' | 'back-off' | 'message_update' | 'tool_execution_progress';
  answer: RegExp;
  /** Texts of the results that the history keeps. */
  results?: RegExp[];
}

const calls = (...names: string[]): ScriptedReply => ({
  calls: names.map((name) => ({ name, arguments: {} })),
});

const phases: Phase[] = [
  {
    name: 'before the first byte',
    reply: { hold: new Promise(() => undefined) },
    at: 'request',
    answer: /^Cancelled/,
  },
  {
    name: 'in the stream',
    reply: { text: ['Hello', ' world'], stallAfter: 2 },
    at: 'message_update',
    answer: /^Hello\s+\(cancelled\)/i,
  },
  {
    name: 'in back-off',
    reply: { status: 503, error: 'busy', headers: { 'retry-after': '30' } },
    at: 'back-off',
    answer: /^Cancelled/,
  },
  {
    name: 'in a tool that listens',
    reply: calls('listens'),
    at: 'tool_execution_progress',
    answer: /^Cancelled/,
    results: [/cancelled the run during this call/],
  },
  {
    name: 'in a tool that does not, with one before it and one after',
    reply: calls('quick', 'deaf', 'quick'),
    at: 'tool_execution_progress',
    answer: /^Cancelled/,
    results: [/^quick was here$/, /cancelled the run during this call/, /^Not done/],
  },
];

const { later, track } = useCleanups(afterAll);

describe.each(['sqlite', 'redis: told to a gateway, felt by a worker'])('on %s', (backend) => {
  let model: ModelServer;
  /** Where the requests go; where the runs are. */
  let gateway: ServerProcess;
  let worker: ServerProcess;
  const took: number[] = [];

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-cancel-'));
    later(() => rm(folder, { recursive: true }));
    const head = `description: 'A tool.', parameters: { type: 'object', properties: {} },`;
    for (const [file, body] of Object.entries(TOOLS))
      await writeFile(join(folder, file), `export default { ${head} ${body} };\n`);
    model = track(await startModelServer());
    const channels = { webhook: { type: 'webhook', api_keys: [API_KEY] } };
    const config = withModel(model.openaiUrl, { channels, tools: { folder } });
    if (backend === 'sqlite') {
      gateway = worker = track(await startServer({ config }));
      return;
    }
    const { url: redisUrl } = track(await startRedis());
    [gateway, worker] = (await Promise.all(
      ['gateway', 'worker'].map(async (role) =>
        track(await startServer({ config, redisUrl, args: ['--role', role] })),
      ),
    )) as [ServerProcess, ServerProcess];
  });

  const backOffs = (): number =>
    worker.lines.filter((line) => line.includes('model call failed: trying again')).length;

  async function cancelAt({ reply, at }: Phase, conversation: string) {
    const client = createWebhookClient(() => gateway.url);
    const before = { requests: model.requests.length, backOffs: backOffs() };
    model.enqueue(reply);
    const response = await client.post('go', { conversation, headers: { accept: 'text/event-stream' } });
    const arrived: string[] = [];
    let endedAt = 0;
    const reading = (async () => {
      for await (const { event } of readEvents(response)) {
        if (event === 'agent_end') endedAt = performance.now();
        arrived.push(event);
      }
    })();
    if (at === 'request') await model.request(before.requests);
    else if (at === 'back-off') await vi.waitFor(() => expect(backOffs()).toBe(before.backOffs + 1), 20_000);
    else await vi.waitFor(() => expect(arrived).toContain(at), 20_000);
    const askedAt = performance.now();
    const cancelled = await fetch(`${gateway.url}/webhook/webhook/conversations/${conversation}/cancel`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}` },
    });
    expect(await cancelled.json()).toMatchObject({ cancelled: true });
    await reading;
    expect(arrived.slice(-2)).toEqual(['agent_end', 'done']);
    expect(arrived).toContain('agent_cancelled');
    return endedAt - askedAt;
  }

  test.each(phases)('$name', async (phase) => {
    for (let round = 0; round < ROUNDS; round++) {
      const conversation = `c${phases.indexOf(phase)}.${round}`;
      const ms = await cancelAt(phase, conversation);
      took.push(ms);
      expect(ms).toBeLessThan(LIMIT_MS);
      const { messages } = await readConversation(gateway.url, `webhook:${conversation}`, ADMIN_TOKEN);
      expect(messages.at(-1)?.content.at(-1)?.text).toMatch(phase.answer);
      const results = messages.flatMap(({ content }) => content.filter(({ type }) => type === 'tool_result'));
      expect(results.map((block) => (block as { content?: string }).content)).toEqual(
        (phase.results ?? []).map((text) => expect.stringMatching(text)),
      );
    }
  });

  afterAll(() => {
    const median = took.toSorted((a, b) => a - b)[Math.floor(took.length / 2)] ?? Number.NaN;
    process.stdout.write(
      `cancel on ${backend}: median ${median.toFixed(0)} ms, worst ${Math.max(...took).toFixed(0)} ms, of ${took.length}\n`,
    );
  });
});
