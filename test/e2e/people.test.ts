// Groups, commands and limits through the whole server: what the model is shown, and what people are told.
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation, type PostOptions } from '../fakes/webhook-client.ts';

const { track } = useCleanups();

const PATIENCE = { timeout: 20_000 };
const LIMIT = 20_000;

/** Text of the n-th user message of a request. */
const userTexts = (body: unknown): string[] =>
  (body as { messages: { role: string; content: string }[] }).messages
    .filter(({ role }) => role === 'user')
    .map(({ content }) => content);

describe.each(['sqlite', 'redis'])('on %s', (backend) => {
  const shared = useCleanups(afterAll);
  let server: ServerProcess;
  let models: ModelServer[];
  let model: ModelServer;
  let other: ModelServer;
  beforeAll(async () => {
    models = [shared.track(await startModelServer()), shared.track(await startModelServer())];
    const redis = backend === 'redis' ? shared.track(await startRedis()) : undefined;
    const [fake, second] = models.map(({ openaiUrl: base_url }) => ({
      provider: 'openai',
      model: 'm',
      base_url,
      api_key: 'sk-key',
    }));
    const webhook = { type: 'webhook', api_keys: [API_KEY], allow_private_callbacks: true };
    const config = {
      model: 'fake',
      models: { fake, other: second },
      channels: {
        webhook: { ...webhook, group: { context_messages: 5 } },
        door: { ...webhook, access: { direct: 'pairing' } },
      },
      // Far more than anybody here uses up who isn't meant to.
      limits: { tokens_per_day_user: LIMIT, tokens_per_day_conversation: LIMIT },
    };
    server = shared.track(await startServer({ config, ...(redis ? { redisUrl: redis.url } : {}) }));
  });
  beforeEach(() => {
    [model, other] = models.map((one) => one.renewed()) as [ModelServer, ModelServer];
  });

  const api = async (path: string, method = 'GET') => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    const response = await fetch(`${server.url}/api/${path}`, { method, headers });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  /** A conversation of its own, with ids of its own. */
  function chat(conversation: string, account = 'webhook') {
    const client = createWebhookClient(() => server.url, account);
    const named = (id: string) => `${conversation}-${id}`;
    return {
      named,
      send: (text: string, { id, ...more }: PostOptions & { id: string }) =>
        client.send(text, { conversation, id: named(id), ...more }),
      settled: (id: string) => client.settled(named(id)),
    };
  }

  test('what a group said before is shown to the model with the message that asks, in the same bytes ever after, and not as the sender\u2019s own words', async () => {
    const client = chat('lunch');
    const group = (name: string, mentioned: boolean) => ({
      body: { group: true, mentioned, sender: { id: name, name } },
    });
    expect(await client.send('lunch at noon?', { id: 'a', ...group('Ann', false) })).toMatchObject({
      status: 'ignored',
    });
    await client.send('rather at one', { id: 'b', ...group('Bo', false) });
    await client.send('when is lunch', { id: 'c', ...group('Cy', true) });
    await client.settled('c');
    const [first] = userTexts(model.requests[0]!.body);
    expect(first).toMatch(/\] Ann: lunch at noon\?\n.*\] Bo: rather at one\n[^]*\] Cy: when is lunch$/);
    await client.send('and dinner', { id: 'd', ...group('Ann', true) });
    await client.settled('d');
    const later = userTexts(model.requests[1]!.body);
    expect(later[0]).toBe(first);
    expect(later[1]).toMatch(/^\[[^\]]*\] Ann: and dinner$/);
    const { messages } = await readConversation(server.url, 'webhook:lunch', ADMIN_TOKEN);
    expect(messages[0]).toMatchObject({
      id: client.named('c'),
      content: [{ type: 'text', text: 'when is lunch' }],
      notes: [{ text: 'lunch at noon?' }, { text: 'rather at one' }],
    });
  });

  test('/compact: the next run sums up first; /model: the next run is another entry\u2019s; /retry asks again', async () => {
    const client = chat('numbers');
    await client.send('remember the number 4711', { id: 'a' });
    await client.settled('a');
    expect((await client.send('/compact', { id: 'k' })).reply?.text).toMatch(/sum up/);
    model.enqueue({ text: 'They want 4711 to be remembered.' });
    await client.send('which number', { id: 'b' });
    await client.settled('b');
    expect(model.requests).toHaveLength(3);
    const shown = userTexts(model.requests[2]!.body).join('\n');
    expect(shown).toContain('They want 4711 to be remembered.');
    expect(shown).not.toContain('remember the number');

    await client.send('/model other', { id: 'o' });
    await client.send('are you another', { id: 'c' });
    await client.settled('c');
    expect(other.requests).toHaveLength(1);
    // Compacted once: the mark is behind the context now.
    expect(model.requests).toHaveLength(3);

    await client.send('/retry', { id: 'r' });
    expect((await client.settled('r')).reply?.text).toMatch(/are you another$/);
    expect(other.requests).toHaveLength(2);
  });

  test('a daily limit is answered with a sentence, wherever the answer goes, and the model is not asked', async () => {
    const callback = track(await startCallbackReceiver());
    const client = chat('spent');
    const by = (id: string) => ({ body: { sender: { id }, callback_url: callback.url } });
    model.enqueue({ text: 'late', usage: { input: LIMIT, output: 10 } });
    await client.send('what time is it', { id: 'a', ...by('ann') });
    expect(await client.settled('a')).toMatchObject({ status: 'done' });
    // Counted right after the merge.
    await vi.waitFor(async () => {
      const usage = (await client.send('/usage', { id: `u${Math.random()}` })) as { reply?: unknown };
      expect(JSON.stringify(usage.reply)).toMatch(/Today: [1-9]/);
    }, PATIENCE);
    await client.send('what time is it now', { id: 'b', ...by('ann') });
    expect((await client.settled('b')).reply?.text).toMatch(/reached today's usage limit/);
    // Somebody else has spent nothing yet, but the conversation has; elsewhere both are free.
    await client.send('我想问现在几点', { id: 'c', ...by('bo') });
    expect((await client.settled('c')).reply?.text).toBe('这个对话今天的用量已达上限，请明天再来。');
    await client.send('and for me', { id: 'd', conversation: 'not spent', ...by('bo') });
    expect(await client.settled('d')).toMatchObject({ status: 'done' });
    expect(model.requests).toHaveLength(2);
    await vi.waitFor(() => expect(callback.received).toHaveLength(4), PATIENCE);
  });

  test('pairing through the API: a stranger is listed, approved, answered, and taken back', async () => {
    const client = chat('door', 'door');
    const receiver = track(await startCallbackReceiver());
    const ann = { body: { sender: { id: 'ann', name: 'Ann' } } };
    const first = { body: { ...ann.body, callback_url: receiver.url } };
    expect((await client.send('hello', { id: 'a', ...first })).reply?.text).toMatch(/\/approve [A-Z2-9]{8}/);
    const { body } = await api('pairings');
    expect(body).toMatchObject({
      items: [{ account: 'door', person: 'ann', name: 'Ann', state: 'waiting' }],
    });
    const [{ code }] = body['items'] as [{ code: string }];
    expect(await api('pairings/NOSUCH/approve', 'POST')).toMatchObject({ status: 404 });
    for (const _again of [1, 2])
      expect(await api(`pairings/${code}/approve`, 'POST')).toMatchObject({ body: { state: 'approved' } });
    await vi.waitFor(() => expect(receiver.received).toHaveLength(1), PATIENCE);
    expect(receiver.received[0]?.body).toMatchObject({
      id: client.named('a'),
      conversation: 'door:door',
      reply: { text: 'An administrator has let you in: you can talk to me now.' },
    });
    await client.send('hello again', { id: 'b', ...ann });
    expect(await client.settled('b')).toMatchObject({ status: 'done' });
    expect(await api(`pairings/${code}`, 'DELETE')).toMatchObject({ status: 200 });
    expect((await client.send('and again', { id: 'c', ...ann })).reply?.text).toMatch(/\/approve/);
  });
});
