// Redis away: at start, and in the middle. Nothing accepted is lost, nothing is accepted that isn't durable, and the
// server comes back by itself.
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import {
  APP_ID,
  APP_SECRET,
  messageEvent,
  startFeishuServer,
  type FeishuServer,
} from '../fakes/feishu-server.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';

const PATIENCE = { timeout: 20_000 };

/** One server for all: it is the same one that outlives Redis each time. */
const { track } = useCleanups(afterAll);
let redis: RedisServer;
let first: ModelServer;
let model: ModelServer;
let feishu: FeishuServer;
let server: ServerProcess;
const client = createWebhookClient(() => server.url);

beforeAll(async () => {
  redis = track(await startRedis({ started: false }));
  first = track(await startModelServer());
  feishu = track(await startFeishuServer());
  const app = { app_id: APP_ID, app_secret: APP_SECRET, domain: feishu.url };
  const config = withModel(first.openaiUrl, {
    channels: {
      webhook: { type: 'webhook', api_keys: [API_KEY] },
      team: { type: 'feishu', ...app, streaming: false, typing: false },
    },
    workers: { lock_seconds: 2, sweep_seconds: 1 },
  });
  server = track(await startServer({ config, redisUrl: redis.url }));
});
beforeEach(() => {
  model = first.renewed();
});

const isReady = async () => expect((await fetch(`${server.url}/readyz`)).status).toBe(200);

test('at start: the server starts, says that it is not ready, refuses messages, and goes on when Redis comes', async () => {
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  const ready = await fetch(`${server.url}/readyz`);
  expect(ready.status).toBe(503);
  expect(await ready.text()).toMatch(/redis/i);
  const refused = await client.post('anybody there?', { id: 'm1' });
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await refused.json()).toMatchObject({ code: 'storage_unavailable' });

  await redis.start();
  await vi.waitFor(isReady, PATIENCE);
  await client.send('anybody there?', { id: 'm1' });
  expect(await client.settled('m1')).toMatchObject({ status: 'done' });
});

test('killed in the middle of a run: acknowledged messages are answered once when it is back', async () => {
  let go = (): void => undefined;
  model.enqueue({ text: 'the held answer', hold: new Promise<void>((resolve) => (go = resolve)) });
  await client.send('first', { id: 'a', conversation: 'x' });
  await model.request(0);
  await client.send('second', { id: 'b', conversation: 'y' });
  await client.settled('b');

  await redis.stop('SIGKILL');
  const refused = await client.post('third', { id: 'c', conversation: 'z' });
  expect(refused.status).toBe(503);
  await redis.start();
  go();

  // The same run, or, if its lease ended meanwhile, the one that took it over.
  expect(await client.settled('a')).toMatchObject({
    status: 'done',
    reply: { text: expect.stringMatching(/(the held answer|first)$/) },
  });
  expect(await client.settled('b')).toMatchObject({ status: 'done' });
  await vi.waitFor(
    async () => expect((await client.post('third', { id: 'c', conversation: 'z' })).ok).toBe(true),
    PATIENCE,
  );
  expect(await client.settled('c')).toMatchObject({ status: 'done' });
  expect(server.child.exitCode).toBeNull();
});

test('a long connection acknowledges nothing meanwhile, and the platform’s redelivery is answered, once, by itself', async () => {
  // The vendor's client loses what comes before it listens.
  await server.line(/long connection is up/);
  const event = messageEvent({ id: 'om_1', text: 'hello' });

  await redis.stop('SIGKILL');
  expect(await feishu.push(event)).not.toBe(200);
  expect((await fetch(`${server.url}/readyz`)).status).toBe(503);
  await redis.start();
  await vi.waitFor(async () => expect(await feishu.push(event)).toBe(200), PATIENCE);
  await vi.waitFor(() => expect(feishu.seen('oc_chat')).toHaveLength(1), PATIENCE);
  // Another one, to have an end to wait for: had the first been answered twice, it would be before this.
  expect(await feishu.push(event)).toBe(200);
  expect(await feishu.push(messageEvent({ id: 'om_2', text: 'thanks' }))).toBe(200);
  await vi.waitFor(() => expect(feishu.seen('oc_chat').at(-1)).toMatch(/thanks$/), PATIENCE);
  expect(feishu.seen('oc_chat')).toHaveLength(2);
  await isReady();
});
