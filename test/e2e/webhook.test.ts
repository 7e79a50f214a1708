// The webhook on the whole server, both backends: signed in, answered by a run with a tool, signed out; waiting, events
// across a kill -9, callbacks that fail, storage that goes away.
import { Webhook } from 'standardwebhooks';
import { describe, expect, test, vi } from 'vitest';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { readEvents, type ReadEvent } from '../fakes/sse-client.ts';
import { API_KEY, createWebhookClient, readConversation, type StatusBody } from '../fakes/webhook-client.ts';

const SECRET = `whsec_${Buffer.from('thirty-two bytes of secret, yes!').toString('base64')}`;
const { track } = useCleanups();

async function setUp(backend: 'sqlite' | 'redis', more: Record<string, unknown> = {}) {
  const model = track(await startModelServer());
  const redis: RedisServer | undefined = backend === 'redis' ? track(await startRedis()) : undefined;
  const config = withModel(model.openaiUrl, {
    agent: { retry: { attempts: 0 } },
    workers: { lock_seconds: 2, sweep_seconds: 1 },
    delivery: { base_ms: 20, max_ms: 40, max_attempts: 3 },
    channels: {
      webhook: { type: 'webhook', secret: SECRET, api_keys: [API_KEY], allow_private_callbacks: true },
    },
    ...more,
  });
  const options = { config, ...(redis ? { redisUrl: redis.url } : {}) };
  let server: ServerProcess = track(await startServer(options));
  const client = createWebhookClient(() => server.url);
  return {
    model,
    redis,
    client,
    url: () => server.url,
    server: () => server,
    async restart() {
      server = track(await startServer({ ...options, dataDir: server.dataDir }));
    },
  };
}

async function postSigned(url: string, message: Record<string, unknown>, id: string): Promise<Response> {
  const body = JSON.stringify(message);
  const at = new Date();
  return fetch(`${url}/webhook/webhook`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      prefer: 'wait=20',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(SECRET).sign(id, at, body),
    },
    body,
  });
}

async function api<T>(url: string, path: string, method = 'GET'): Promise<T> {
  const response = await fetch(`${url}/api${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
  });
  return (await response.json()) as T;
}

const EVENTS = { accept: 'text/event-stream' };

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  test('signed in, answered by a run that calls a tool, called back signed', async () => {
    const { url } = await setUp(backend);
    const receiver = track(await startCallbackReceiver());
    const message = { conversation: 'orders', text: 'use:now, please', callback_url: receiver.url };
    const response = await postSigned(url(), message, 'evt-1');
    expect(response.status).toBe(200);
    const answer = (await response.json()) as StatusBody;
    expect(answer).toMatchObject({ id: 'evt-1', conversation: 'webhook:orders', status: 'done' });
    expect(answer.reply?.text).toMatch(/^result: 20\d\d-/);

    await vi.waitFor(() => expect(receiver.received).toHaveLength(1));
    const [callback] = receiver.received;
    const verified = new Webhook(SECRET).verify(
      callback?.raw ?? '',
      callback?.headers as Record<string, string>,
    );
    expect(verified).toMatchObject({
      id: 'evt-1',
      conversation: 'webhook:orders',
      status: 'done',
      reply: answer.reply,
    });

    // Delivered again by a sender that did not hear us: the same answer, no second run, no second callback.
    expect(await (await postSigned(url(), message, 'evt-1')).json()).toEqual(answer);
    const { messages } = await readConversation(url(), 'webhook:orders', ADMIN_TOKEN);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(receiver.received).toHaveLength(1);
  });

  test('messages that join a run share its answer; each callback URL is called once', async () => {
    const { client, model } = await setUp(backend);
    const one = track(await startCallbackReceiver());
    const two = track(await startCallbackReceiver());
    const gate = Promise.withResolvers<void>();
    model.enqueue({ calls: [{ name: 'now', arguments: {} }], hold: gate.promise });
    await client.send('first', { id: 'm1', body: { callback_url: one.url } });
    await model.request(0);
    await client.send('second', { id: 'm2', body: { callback_url: one.url } });
    await client.send('third', { id: 'm3', body: { callback_url: two.url } });
    gate.resolve();
    const answers = await Promise.all(['m1', 'm2', 'm3'].map((id) => client.settled(id)));
    expect(new Set(answers.map(({ reply }) => reply?.text)).size).toBe(1);
    await vi.waitFor(() => expect([one.received.length, two.received.length]).toEqual([1, 1]));
    expect(one.received[0]?.body).toMatchObject({ id: 'm2', messages: ['m1', 'm2'] });
    expect(two.received[0]?.body).toMatchObject({ id: 'm3', messages: ['m3'] });
  });

  test('an event stream goes on where it was cut, across a kill -9', async () => {
    const { client, model, server, restart } = await setUp(backend);
    model.enqueue({ text: ['begun ', 'and'], stallAfter: 2 });
    const read: ReadEvent[] = [];
    const first = await client.post('tell me', { id: 'm1', headers: EVENTS });
    const reading = (async () => {
      for await (const event of readEvents(first)) read.push(event);
    })().catch(() => 'cut');
    await vi.waitFor(() => expect(read.map(({ event }) => event)).toContain('message_update'));
    await server().kill('SIGKILL');
    expect(await reading).toBe('cut');
    model.enqueue({ text: 'the whole story' });
    await restart();
    const last = read.findLast(({ id }) => id !== undefined)?.id ?? '';
    const second = await client.post('tell me', { id: 'm1', headers: { ...EVENTS, 'last-event-id': last } });
    const after: ReadEvent[] = [];
    for await (const event of readEvents(second)) after.push(event);
    expect(JSON.parse(after.at(-1)?.data ?? '')).toEqual(await client.status('m1'));
    expect(after.at(-1)).toMatchObject({ event: 'done' });
    expect(await client.status('m1')).toMatchObject({ status: 'done', reply: { text: 'the whole story' } });
    const ids = [...read, ...after].flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('a callback that fails is retried with the same id, then parked, listed, and sent on request', async () => {
    const { client, url } = await setUp(backend);
    const receiver = track(await startCallbackReceiver());
    receiver.answer(500);
    await client.send('hello', { body: { callback_url: receiver.url } });
    interface Listed {
      items: { id: string; state: string; attempts: number; error: string }[];
    }
    const parked = await vi.waitFor(
      async () => {
        const { items } = await api<Listed>(url(), '/deliveries?state=parked');
        expect(items).toHaveLength(1);
        return items[0]!;
      },
      { timeout: 10_000 },
    );
    expect(parked).toMatchObject({ attempts: 3, error: 'the receiver answered 500' });
    expect(receiver.received).toHaveLength(3);
    receiver.answer(204);
    await api(url(), `/deliveries/${encodeURIComponent(parked.id)}/retry`, 'POST');
    await vi.waitFor(() => expect(receiver.received).toHaveLength(4));
    const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids)).toEqual(new Set([parked.id]));
    await vi.waitFor(async () =>
      expect(await api<Listed>(url(), '/deliveries?state=parked')).toEqual({ items: [] }),
    );
  });

  test('cancel ends the active run, and says when there is none', async () => {
    const { client, model, url } = await setUp(backend);
    model.enqueue({ text: ['half ', 'rest'], stallAfter: 2 });
    const waiting = client.send('long', { conversation: 'a/b', headers: { prefer: 'wait=20' } });
    await model.request(0);
    const cancel = async () => {
      const response = await fetch(`${url()}/webhook/webhook/conversations/a%2Fb/cancel`, {
        method: 'POST',
        headers: { authorization: `Bearer ${API_KEY}` },
      });
      return (await response.json()) as { cancelled: boolean };
    };
    expect(await cancel()).toMatchObject({ conversation: 'webhook:a/b', cancelled: true });
    expect((await waiting).reply?.text).toContain('half');
    await vi.waitFor(async () => expect(await cancel()).toMatchObject({ cancelled: false }));
  });

  test('a model that answers garbage is a failed message with a sentence, and the next one is answered', async () => {
    const { client, model } = await setUp(backend);
    model.enqueue({ raw: '<html>Bad gateway</html>', contentType: 'text/html' });
    const wait = { headers: { prefer: 'wait=20' } };
    const failed = await client.send('hi', wait);
    expect(failed).toMatchObject({ status: 'failed', reply: { text: expect.stringMatching(/\w{3}/) } });
    expect(failed.reply?.text).not.toMatch(/html|gateway/i);
    expect(await client.send('again', wait)).toMatchObject({ status: 'done' });
  });

  test('a group message gets an answer of its own', async () => {
    const { client, model } = await setUp(backend);
    const gate = Promise.withResolvers<void>();
    model.enqueue({ text: 'one', hold: gate.promise }, { text: 'two' });
    const group = { group: true, mentioned: true };
    const wait = { headers: { prefer: 'wait=20' } };
    const first = client.send('first', { ...wait, body: { ...group, sender: { id: 'a', name: 'Ada' } } });
    await model.request(0);
    const second = client.send('second', { ...wait, body: { ...group, sender: { id: 'b', name: 'Bob' } } });
    gate.resolve();
    expect([(await first).reply?.text, (await second).reply?.text]).toEqual(['one', 'two']);
    expect(model.requests[1]?.raw).toContain('Bob');
  });
});

test('Redis that goes away is 503 with Retry-After, never 202; nothing accepted is lost', async () => {
  const { client, redis } = await setUp('redis');
  await client.send('before', { id: 'm1', headers: { prefer: 'wait=20' } });
  await redis!.stop('SIGKILL');
  const refused = await client.post('during', { id: 'm2' });
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await refused.json()).toMatchObject({ code: 'storage_unavailable' });
  await redis!.start();
  await vi.waitFor(async () => expect((await client.post('during', { id: 'm2' })).status).toBe(202), {
    timeout: 20_000,
    interval: 200,
  });
  expect(await client.settled('m2')).toMatchObject({ status: 'done' });
  expect(await client.status('m1')).toMatchObject({ status: 'done' });
});

test('an event stream and a waiting request on a gateway see a run of another process', async () => {
  const model = track(await startModelServer());
  const redis = track(await startRedis());
  const config = withModel(model.openaiUrl, {
    channels: { webhook: { type: 'webhook', api_keys: [API_KEY] } },
  });
  const options = { config, redisUrl: redis.url };
  const gateway = track(await startServer({ ...options, args: ['--role', 'gateway'] }));
  track(await startServer({ ...options, args: ['--role', 'worker'] }));
  const client = createWebhookClient(() => gateway.url);
  expect(await client.send('hi', { headers: { prefer: 'wait=20' } })).toMatchObject({ status: 'done' });
  const names: string[] = [];
  for await (const { event } of readEvents(await client.post('use:now', { headers: EVENTS })))
    names.push(event);
  expect(names).toEqual(expect.arrayContaining(['queued', 'agent_start', 'tool_execution_end', 'done']));
});

test('a worker has no webhook of its own', async () => {
  const redis = track(await startRedis());
  const config = { channels: { webhook: { type: 'webhook', api_keys: [API_KEY] } } };
  const worker = track(await startServer({ config, redisUrl: redis.url, args: ['--role', 'worker'] }));
  expect((await createWebhookClient(() => worker.url).post('hi')).status).toBe(404);
  expect((await fetch(`${worker.url}/readyz`)).status).toBe(200);
});
