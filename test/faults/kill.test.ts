// kill -9 in the middle of a run, at four kinds of points, on both backends: each message is answered once, and a
// finished tool is not run again.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { startCallbackReceiver, type CallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer, type ScriptRequest } from '../fakes/model-server.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';

const ENTRY = join(import.meta.dirname, '../fakes/fault-server.ts');
const LOCK_SECONDS = 2;

interface Bench {
  model: ModelServer;
  receiver: CallbackReceiver;
  client: ReturnType<typeof createWebhookClient>;
  gatewayUrl(): string;
  /** The process that runs the agent. */
  worker(): ServerProcess;
  /** Starts it again, without a fault. */
  restart(): Promise<void>;
  counted(): Promise<{ name: string; callId: string }[]>;
}

const { later } = useCleanups();

async function setUp(backend: 'sqlite' | 'redis', faultPoint: string): Promise<Bench> {
  const model = await startModelServer();
  later(() => model.close());
  const receiver = await startCallbackReceiver();
  later(() => receiver.close());
  const config = withModel(model.openaiUrl, {
    workers: { lock_seconds: LOCK_SECONDS, sweep_seconds: 1 },
    tools: { enabled: ['now', 'count_once', 'count_many'] },
    channels: { webhook: { type: 'webhook', api_keys: [API_KEY], allow_private_callbacks: true } },
  });
  const redis: RedisServer | undefined = backend === 'redis' ? await startRedis() : undefined;
  if (redis) later(() => redis.close());
  const common = { entry: ENTRY, config, ...(redis ? { redisUrl: redis.url } : {}) };

  // Redis: a gateway that lives, and a worker that is killed. Embedded: the one process.
  const gateway = redis ? await startServer({ ...common, args: ['--role', 'gateway'] }) : undefined;
  if (gateway) later(() => gateway.close());
  const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-kill-'));
  later(() => rm(dataDir, { recursive: true, force: true }));
  const env = {
    FAULT_POINT: faultPoint,
    FAULT_ONCE: join(dataDir, 'fault'),
    COUNTER: join(dataDir, 'counter'),
  };
  const launch = () => startServer({ ...common, args: ['--role', redis ? 'worker' : 'all'], dataDir, env });
  let worker = await launch();
  later(() => worker.close());

  const gatewayUrl = () => gateway?.url ?? worker.url;
  return {
    model,
    receiver,
    client: createWebhookClient(gatewayUrl),
    gatewayUrl,
    worker: () => worker,
    async restart() {
      worker = await launch();
    },
    counted: async () => {
      const text = await readFile(env.COUNTER, 'utf8').catch(() => '');
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as { name: string; callId: string });
    },
  };
}

/** After the crash: answered once, in the history once, called back with one id, and the lane goes on. */
async function expectAnsweredOnce(bench: Bench, id: string, reply: RegExp): Promise<void> {
  const settled = await bench.client.settled(id);
  expect(settled.status).toBe('done');
  expect(settled.reply?.text).toMatch(reply);

  await vi.waitFor(() => expect(bench.receiver.received.length).toBeGreaterThan(0), { timeout: 20_000 });
  const next = await bench.client.send('and then?', { id: 'next' });
  await bench.client.settled(next.id);

  const { messages, pending } = await readConversation(bench.gatewayUrl(), 'webhook:c1', ADMIN_TOKEN);
  expect(pending).toBe(0);
  expect(messages.filter((message) => message.id === id)).toHaveLength(1);
  const texts = messages.map((message) => message.content.map((block) => block.text ?? '').join(''));
  expect(texts.filter((text) => reply.test(text))).toHaveLength(1);
  const uses = messages.flatMap((message) => message.content.filter((block) => block.type === 'tool_use'));
  const results = messages.flatMap((message) =>
    message.content.filter((block) => block.type === 'tool_result'),
  );
  expect(results).toHaveLength(uses.length);

  const ids = new Set(bench.receiver.received.map((callback) => callback.headers['webhook-id']));
  expect(ids.size).toBe(1);
  expect(bench.receiver.received.every((callback) => callback.body['id'] === id)).toBe(true);
  expect(bench.model.requests.filter((request) => request.rejected !== undefined)).toEqual([]);
}

describe.each(['sqlite', 'redis'] as const)('kill -9 on %s', (backend) => {
  const post = (bench: Bench, text: string) =>
    bench.client.send(text, { id: 'm1', body: { callback_url: bench.receiver.url } });

  test('before the model call', async () => {
    const bench = await setUp(backend, 'after_claim');
    // Embedded, the process may be gone before its answer: the message is durable all the same, or it is sent again.
    await post(bench, 'hello').catch(() => undefined);
    await bench.worker().ended;
    await bench.restart();
    await post(bench, 'hello');
    await expectAnsweredOnce(bench, 'm1', /^echo: .*hello$/);
    expect(bench.receiver.received).toHaveLength(1);
  });

  test('in the stream', async () => {
    const bench = await setUp(backend, '');
    bench.model.enqueue({ text: ['half ', 'an ', 'answer'], stallAfter: 3 });
    const response = await bench.client.post('hello', {
      id: 'm1',
      headers: { accept: 'text/event-stream' },
      body: { callback_url: bench.receiver.url },
    });
    await readUntil(response, /message_update/);
    await bench.worker().kill('SIGKILL');
    await bench.restart();
    await expectAnsweredOnce(bench, 'm1', /^echo: .*hello$/);
    expect(bench.receiver.received).toHaveLength(1);
  });

  test.each([
    // A tool that may have run is run again only if that is harmless; else the model is told.
    { tool: 'count_many', executions: 2, reply: /result: count_many counted/ },
    { tool: 'count_once', executions: 1, reply: /result: .*(may|not known)/ },
  ])('between the tool $tool and its journal entry', async ({ tool, executions, reply }) => {
    const bench = await setUp(backend, 'after_tool');
    await post(bench, `use:${tool}`);
    await bench.worker().ended;
    await bench.restart();
    await expectAnsweredOnce(bench, 'm1', reply);
    const counted = await bench.counted();
    expect(counted).toHaveLength(executions);
    expect(new Set(counted.map((line) => line.callId)).size).toBe(1);
  });

  test.each(['count_many', 'count_once'])('after the journal has the result of %s', async (tool) => {
    const bench = await setUp(backend, 'after_tool_journal');
    await post(bench, `use:${tool}`);
    await bench.worker().ended;
    await bench.restart();
    await expectAnsweredOnce(bench, 'm1', new RegExp(`result: ${tool} counted`));
    expect(await bench.counted()).toHaveLength(1);
  });

  test('between commit and the end of the job', async () => {
    const bench = await setUp(backend, 'after_commit');
    await post(bench, 'hello').catch(() => undefined);
    await bench.worker().ended;
    await bench.restart();
    await expectAnsweredOnce(bench, 'm1', /^echo: .*hello$/);
    expect(bench.receiver.received).toHaveLength(1);
    const forFirst = (request: ScriptRequest | { raw: string }) =>
      /hello/.test(request.raw) && !/and then/.test(request.raw);
    expect(bench.model.requests.filter(forFirst)).toHaveLength(1);
  });
});

async function readUntil(response: Response, pattern: RegExp): Promise<void> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk, { stream: true });
    if (pattern.test(text)) return;
  }
  throw new Error(`the stream ended without ${pattern}: ${text}`);
}
