// The server as a process: starts with nothing set, drains on SIGTERM, re-reads its settings, splits into roles.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { readEvents } from '../fakes/sse-client.ts';
import { API_KEY, createWebhookClient, readConversation, type StatusBody } from '../fakes/webhook-client.ts';

const channels = { webhook: { type: 'webhook', api_keys: [API_KEY] } };
const { track } = useCleanups();
const PATIENCE = { timeout: 20_000 };

describe('a server with nothing set', () => {
  const shared = useCleanups(afterAll);
  let server: ServerProcess;
  beforeAll(async () => {
    server = shared.track(await startServer({ config: { channels } }));
  });

  // First: what it counts is a single message.
  test('is alive and ready, and shows metrics without users or conversations', async () => {
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
    const client = createWebhookClient(() => server.url);
    await client.send('hi', { conversation: 'secret-chat', headers: { prefer: 'wait=20' } });
    // The run counts itself right after its answer is there.
    await vi.waitFor(async () => {
      const metrics = await (await fetch(`${server.url}/metrics`)).text();
      expect(metrics).toMatch(/lanekeeper_messages_total\{account="webhook",result="queued"\} 1\n/);
      expect(metrics).toMatch(/lanekeeper_runs_total\{account="webhook",result="committed"\} 1\n/);
      expect(metrics).toMatch(/lanekeeper_turns_total\{model="demo"/);
      expect(metrics).toMatch(/lanekeeper_queue_depth\{queue="lanes",state="waiting"\} 0/);
      expect(metrics).not.toContain('secret-chat');
    }, PATIENCE);
  });

  test('answers with the demo model and calls a tool when asked for the time', async () => {
    const client = createWebhookClient(() => server.url);
    const hello = await client.send('hello there', { headers: { prefer: 'wait=20' } });
    expect(hello).toMatchObject({ status: 'done', reply: { text: expect.stringMatching(/demo/i) } });
    const time = await client.send('现在几点了?', { headers: { prefer: 'wait=20' } });
    expect(time.reply?.text).toContain(String(new Date().getFullYear()));
    const { messages } = await readConversation(server.url, 'webhook:c1', ADMIN_TOKEN);
    const calls = messages.flatMap((message) => message.content.filter((block) => block.type === 'tool_use'));
    expect(calls).toMatchObject([{ name: 'now' }]);
  });
});

describe.each(['sqlite', 'redis'] as const)('SIGTERM on %s', (backend) => {
  test('a run that does not finish in drain_seconds is handed back, and answered by the next process; that one, with time enough, lets its run finish, refuses new messages with 503, and ends with 0', async () => {
    const model = track(await startModelServer());
    model.enqueue({ text: 'never', hold: new Promise(() => undefined) });
    const shared = backend === 'redis' ? { redisUrl: track(await startRedis()).url } : {};
    const config = (drain_seconds: number) =>
      withModel(model.openaiUrl, { channels, server: { drain_seconds } });
    const first = track(await startServer({ config: config(0.2), ...shared }));
    const { id } = await createWebhookClient(() => first.url).send('take your time', { id: 'm1' });
    await model.request(0);
    expect(await first.kill('SIGTERM')).toBe(0);

    const next = track(await startServer({ config: config(30), ...shared, dataDir: first.dataDir }));
    const startedAt = performance.now();
    const client = createWebhookClient(() => next.url);
    expect(await client.settled(id)).toMatchObject({
      status: 'done',
      reply: { text: expect.stringContaining('take your time') },
    });
    // Handed back, so nobody waits for the lease (30 s) to end.
    expect(performance.now() - startedAt).toBeLessThan(15_000);

    // Time enough.
    const asked = model.requests.length;
    let finish = (): void => undefined;
    model.enqueue({ text: 'finished', hold: new Promise<void>((resolve) => (finish = resolve)) });
    const waiting = client.send('slow one', { headers: { prefer: 'wait=20' } });
    await model.request(asked);
    next.child.kill('SIGTERM');
    await next.line(/"msg":"draining"/);
    await vi.waitFor(async () => {
      const refused = await client.post('too late');
      expect(refused.status).toBe(503);
      expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
      expect(await refused.json()).toMatchObject({ code: 'draining' });
    }, PATIENCE);
    finish();
    expect(await waiting).toMatchObject({ status: 'done', reply: { text: 'finished' } });
    expect(await next.ended).toBe(0);
  });
});

describe('settings', () => {
  const shared = useCleanups(afterAll);
  let server: ServerProcess;
  let model: ModelServer;
  const config = (max_steps: number) => withModel(model.openaiUrl, { channels, agent: { max_steps } });
  beforeAll(async () => {
    model = shared.track(
      await startModelServer({
        script: ({ tools }) =>
          tools.length > 0 ? { calls: [{ name: 'now', arguments: {} }] } : { text: 'limit' },
      }),
    );
    server = shared.track(await startServer({ config: config(4) }));
  });

  test.each([
    { how: 'SIGHUP', steps: 3 },
    { how: 'a saved file', steps: 1 },
  ])('a changed max_steps is seen by the next run after $how', async ({ how, steps }) => {
    const client = createWebhookClient(() => server.url);
    const asked = async () => {
      const before = model.requests.length;
      await client.send('loop', { conversation: how, headers: { prefer: 'wait=20' } });
      return model.requests.length - before;
    };
    expect(await asked()).not.toBe(steps + 1);
    const file = join(server.dataDir, 'overlay.yaml');
    const changed = JSON.stringify(config(steps));
    expect(await readFile(file, 'utf8')).not.toBe(changed);
    const printed = server.lines.length;
    await writeFile(file, changed);
    if (how === 'SIGHUP') server.child.kill('SIGHUP');
    await server.line(/configuration/i, printed);
    await vi.waitFor(async () => expect(await asked()).toBe(steps + 1), PATIENCE);
  });
});

describe('--role', () => {
  const shared = useCleanups(afterAll);
  let gateway: ServerProcess;
  let workers: ServerProcess[];
  let early: StatusBody;
  const client = createWebhookClient(() => gateway.url);
  beforeAll(async () => {
    const redis = shared.track(await startRedis());
    const model = shared.track(await startModelServer());
    const options = { config: withModel(model.openaiUrl, { channels }), redisUrl: redis.url };
    const start = async (role: string) =>
      shared.track(await startServer({ ...options, args: ['--role', role] }));
    gateway = await start('gateway');
    early = await client.send('nobody works yet', { conversation: 'early' });
    workers = await Promise.all([start('worker'), start('worker')]);
  });

  test('a gateway and two workers share the work on Redis', async () => {
    expect(early.status).toBe('queued');
    expect(await client.settled(early.id)).toMatchObject({ status: 'done' });
    const runs = () =>
      workers.map((worker) => worker.lines.filter((line) => line.includes('run committed')).length);
    const posts = Array.from({ length: 40 }, (_, n) =>
      client.send(`message ${n}`, { conversation: `c${n}`, headers: { prefer: 'wait=20' } }),
    );
    for (const answer of await Promise.all(posts)) expect(answer.status).toBe('done');
    expect(gateway.lines.join('\n')).not.toContain('run started');
    // Log lines come through a pipe, a little later.
    await vi.waitFor(() => expect(runs()[0]! + runs()[1]!).toBe(41), PATIENCE);
    expect(Math.min(...runs())).toBeGreaterThan(0);
  });

  test('an event stream and a waiting request on a gateway see a run of another process', async () => {
    const wait = { conversation: 'seen', headers: { prefer: 'wait=20' } };
    expect(await client.send('hi', wait)).toMatchObject({ status: 'done' });
    const names: string[] = [];
    const stream = await client.post('use:now', {
      conversation: 'seen',
      headers: { accept: 'text/event-stream' },
    });
    for await (const { event } of readEvents(stream)) names.push(event);
    expect(names).toEqual(expect.arrayContaining(['queued', 'agent_start', 'tool_execution_end', 'done']));
  });

  test('a worker is ready, and takes no messages from outside', async () => {
    const [worker] = workers;
    expect((await fetch(`${worker!.url}/healthz`)).status).toBe(200);
    expect((await fetch(`${worker!.url}/readyz`)).status).toBe(200);
    expect((await createWebhookClient(() => worker!.url).post('hi')).status).toBe(404);
  });

  test.each([
    { args: ['--role', 'worker'], says: /needs Redis/ },
    { args: ['--role', 'captain'], says: /allowed: all, gateway, worker/ },
  ])('$args without Redis is refused in one line', async ({ args, says }) => {
    await expect(startServer({ args })).rejects.toThrow(says);
  });
});
