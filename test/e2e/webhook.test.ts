// The webhook on the whole server, both backends: signed in, answered by a run with a tool, signed out; waiting, events
// across a kill -9, callbacks that fail, storage that goes away.
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import type { ModelServer } from '../fakes/model-server.ts';
import { ADMIN_TOKEN, type ServerProcess } from '../fakes/server.ts';
import { readEvents, type ReadEvent } from '../fakes/sse-client.ts';
import { startSystem, type System } from '../fakes/system.ts';
import { API_KEY, createWebhookClient, readConversation, type StatusBody } from '../fakes/webhook-client.ts';

const SECRET = `whsec_${Buffer.from('thirty-two bytes of secret, yes!').toString('base64')}`;
const PATIENCE = { timeout: 20_000 };
const { track } = useCleanups();

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

const EVENTS = { accept: 'text/event-stream' };

/** Every test has a conversation and ids of its own. */
let chats = 0;

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  const shared = useCleanups(afterAll);
  let system: System;
  let server: ServerProcess;
  let model: ModelServer;
  let conversation: string;
  beforeAll(async () => {
    const webhook = { type: 'webhook', secret: SECRET, api_keys: [API_KEY], allow_private_callbacks: true };
    system = await startSystem(shared, {
      backend,
      config: { delivery: { base_ms: 20, max_ms: 40, max_attempts: 3 }, channels: { webhook } },
    });
  });
  beforeEach(async () => {
    server = await system.server();
    model = system.model.renewed();
    conversation = `c${(chats += 1)}`;
  });

  const api = async <T>(path: string, method = 'GET'): Promise<T> => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    return (await (await fetch(`${server.url}/api${path}`, { method, headers })).json()) as T;
  };
  const client = createWebhookClient(() => server.url);
  const named = (id: string) => `${conversation}-${id}`;
  const mine = (id: string) => ({ conversation, id: named(id) });

  test('signed in, answered by a run that calls a tool, called back signed', async () => {
    const receiver = track(await startCallbackReceiver());
    const message = { conversation: 'orders', text: 'use:now, please', callback_url: receiver.url };
    const response = await postSigned(server.url, message, 'evt-1');
    expect(response.status).toBe(200);
    const answer = (await response.json()) as StatusBody;
    expect(answer).toMatchObject({ id: 'evt-1', conversation: 'webhook:orders', status: 'done' });
    expect(answer.reply?.text).toMatch(/^result: 20\d\d-/);

    await vi.waitFor(() => expect(receiver.received).toHaveLength(1), PATIENCE);
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
    expect(await (await postSigned(server.url, message, 'evt-1')).json()).toEqual(answer);
    const { messages } = await readConversation(server.url, 'webhook:orders', ADMIN_TOKEN);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(receiver.received).toHaveLength(1);
  });

  test('messages that join a run share its answer; each callback URL is called once', async () => {
    const one = track(await startCallbackReceiver());
    const two = track(await startCallbackReceiver());
    const gate = Promise.withResolvers<void>();
    model.enqueue({ calls: [{ name: 'now', arguments: {} }], hold: gate.promise });
    await client.send('first', { ...mine('m1'), body: { callback_url: one.url } });
    await model.request(0);
    await client.send('second', { ...mine('m2'), body: { callback_url: one.url } });
    await client.send('third', { ...mine('m3'), body: { callback_url: two.url } });
    gate.resolve();
    const answers = await Promise.all(['m1', 'm2', 'm3'].map((id) => client.settled(named(id))));
    expect(new Set(answers.map(({ reply }) => reply?.text)).size).toBe(1);
    await vi.waitFor(() => expect([one.received.length, two.received.length]).toEqual([1, 1]), PATIENCE);
    expect(one.received[0]?.body).toMatchObject({ id: named('m2'), messages: ['m1', 'm2'].map(named) });
    expect(two.received[0]?.body).toMatchObject({ id: named('m3'), messages: [named('m3')] });
  });

  test('an event stream goes on where it was cut, across a kill -9', async () => {
    model.enqueue({ text: ['begun ', 'and'], stallAfter: 2 });
    const read: ReadEvent[] = [];
    const first = await client.post('tell me', { ...mine('m1'), headers: EVENTS });
    const reading = (async () => {
      for await (const event of readEvents(first)) read.push(event);
    })().catch(() => 'cut');
    await vi.waitFor(() => expect(read.map(({ event }) => event)).toContain('message_update'), PATIENCE);
    await server.kill('SIGKILL');
    expect(await reading).toBe('cut');
    model.enqueue({ text: 'the whole story' });
    server = await system.server();
    const last = read.findLast(({ id }) => id !== undefined)?.id ?? '';
    const second = await client.post('tell me', {
      ...mine('m1'),
      headers: { ...EVENTS, 'last-event-id': last },
    });
    const after: ReadEvent[] = [];
    for await (const event of readEvents(second)) after.push(event);
    expect(JSON.parse(after.at(-1)?.data ?? '')).toEqual(await client.status(named('m1')));
    expect(after.at(-1)).toMatchObject({ event: 'done' });
    expect(await client.status(named('m1'))).toMatchObject({
      status: 'done',
      reply: { text: 'the whole story' },
    });
    const ids = [...read, ...after].flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('a callback that fails is retried with the same id, then parked, listed, and sent on request', async () => {
    const receiver = track(await startCallbackReceiver());
    receiver.answer(500);
    await client.send('hello', { conversation, body: { callback_url: receiver.url } });
    interface Listed {
      items: { id: string; conversation: string; state: string; attempts: number; error: string }[];
    }
    const listed = async () =>
      (await api<Listed>('/deliveries?state=parked')).items.filter(
        (item) => item.conversation === `webhook:${conversation}`,
      );
    const parked = await vi.waitFor(async () => {
      const items = await listed();
      expect(items).toHaveLength(1);
      return items[0]!;
    }, PATIENCE);
    expect(parked).toMatchObject({ attempts: 3, error: 'the receiver answered 500' });
    expect(receiver.received).toHaveLength(3);
    receiver.answer(204);
    await api(`/deliveries/${encodeURIComponent(parked.id)}/retry`, 'POST');
    await vi.waitFor(() => expect(receiver.received).toHaveLength(4), PATIENCE);
    const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids)).toEqual(new Set([parked.id]));
    await vi.waitFor(async () => expect(await listed()).toEqual([]), PATIENCE);
  });

  test('cancel ends the active run, and says when there is none', async () => {
    model.enqueue({ text: ['half ', 'rest'], stallAfter: 2 });
    const waiting = client.send('long', { conversation: 'a/b', headers: { prefer: 'wait=20' } });
    await model.request(0);
    const cancel = async () => {
      const response = await fetch(`${server.url}/webhook/webhook/conversations/a%2Fb/cancel`, {
        method: 'POST',
        headers: { authorization: `Bearer ${API_KEY}` },
      });
      return (await response.json()) as { cancelled: boolean };
    };
    expect(await cancel()).toMatchObject({ conversation: 'webhook:a/b', cancelled: true });
    expect((await waiting).reply?.text).toContain('half');
    await vi.waitFor(async () => expect(await cancel()).toMatchObject({ cancelled: false }), PATIENCE);
  });

  test('a model that answers garbage is a failed message with a sentence, and the next one is answered', async () => {
    model.enqueue({ raw: '<html>Bad gateway</html>', contentType: 'text/html' });
    const wait = { conversation, headers: { prefer: 'wait=20' } };
    const failed = await client.send('hi', wait);
    expect(failed).toMatchObject({ status: 'failed', reply: { text: expect.stringMatching(/\w{3}/) } });
    expect(failed.reply?.text).not.toMatch(/html|gateway/i);
    expect(await client.send('again', wait)).toMatchObject({ status: 'done' });
  });

  test('a group message gets an answer of its own', async () => {
    const gate = Promise.withResolvers<void>();
    model.enqueue({ text: 'one', hold: gate.promise }, { text: 'two' });
    const group = { group: true, mentioned: true };
    const wait = { conversation, headers: { prefer: 'wait=20' } };
    const first = client.send('first', { ...wait, body: { ...group, sender: { id: 'a', name: 'Ada' } } });
    await model.request(0);
    const second = client.send('second', { ...wait, body: { ...group, sender: { id: 'b', name: 'Bob' } } });
    gate.resolve();
    expect([(await first).reply?.text, (await second).reply?.text]).toEqual(['one', 'two']);
    expect(model.requests[1]?.raw).toContain('Bob');
  });

  if (backend === 'sqlite') return;

  test('Redis that goes away is 503 with Retry-After, never 202; nothing accepted is lost', async () => {
    const redis = system.redis!;
    await client.send('before', { ...mine('m1'), headers: { prefer: 'wait=20' } });
    await redis.stop('SIGKILL');
    const refused = await client.post('during', mine('m2'));
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await refused.json()).toMatchObject({ code: 'storage_unavailable' });
    await redis.start();
    await vi.waitFor(async () => expect((await client.post('during', mine('m2'))).status).toBe(202), {
      ...PATIENCE,
      interval: 200,
    });
    expect(await client.settled(named('m2'))).toMatchObject({ status: 'done' });
    expect(await client.status(named('m1'))).toMatchObject({ status: 'done' });
  });
});
