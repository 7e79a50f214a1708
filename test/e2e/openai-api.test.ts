// The unmodified openai package as a client of the whole server: SDK → HTTP → accept → lane → agent → model, and back.
import OpenAI, { AuthenticationError, BadRequestError, NotFoundError } from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, readConversation } from '../fakes/webhook-client.ts';

const PATIENCE = { timeout: 20_000 };

let model: ModelServer;
let server: ServerProcess;
let client: OpenAI;

/** For the tests of a `describe`; each has a user, or a conversation, of its own. */
function useServer(backend: 'sqlite' | 'redis') {
  const { track } = useCleanups(afterAll);
  let first: ModelServer;
  beforeAll(async () => {
    first = track(await startModelServer());
    const redis = backend === 'redis' ? { redisUrl: track(await startRedis()).url } : {};
    const config = withModel(first.openaiUrl, {
      agent: { retry: { attempts: 0 } },
      channels: { webhook: { type: 'webhook', api_keys: [API_KEY] } },
    });
    server = track(await startServer({ config, ...redis }));
    client = new OpenAI({ apiKey: API_KEY, baseURL: `${server.url}/v1` });
  });
  beforeEach(() => {
    model = first.renewed();
  });
}

const ask = (content: string, more: { user?: string } = {}) => ({
  model: 'gpt-whatever',
  messages: [{ role: 'user' as const, content }],
  ...more,
});

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  useServer(backend);

  test('a completion is a message and its answer', async () => {
    const completion = await client.chat.completions.create(ask('use:now please', { user: 'ann' }));
    expect(completion).toMatchObject({
      object: 'chat.completion',
      model: 'gpt-whatever',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant' } }],
    });
    expect(completion.choices[0]?.message.content).toMatch(/^result: 20\d\d-/);
    expect(completion.usage?.total_tokens).toBeGreaterThan(0);
    const { messages } = await readConversation(server.url, 'webhook:ann', ADMIN_TOKEN);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  });

  test('a stream is the same text piece by piece, with the usage on request', async () => {
    model.enqueue({ text: ['One ', 'two ', 'three ', 'four.'], chunkDelayMs: 60 });
    const stream = await client.chat.completions.create({
      ...ask('count', { user: 'alice' }),
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    const deltas = chunks.map(({ choices }) => choices[0]?.delta.content ?? '');
    expect(deltas.join('')).toBe('One two three four.');
    // It came as it was made, not in one piece at the end.
    expect(deltas.filter((text) => text !== '').length).toBeGreaterThan(1);
    expect(chunks[0]?.choices[0]?.delta.role).toBe('assistant');
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('stop');
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
  });

  // Of what follows nothing differs by backend.
  if (backend === 'redis') return;

  describe('the conversation', () => {
    test('is kept by the server: of the history that a client sends, only what is new is taken', async () => {
      await client.chat.completions.create(ask('first', { user: 'bob' }));
      await client.chat.completions.create({
        model: 'x',
        user: 'bob',
        messages: [
          { role: 'system', content: 'Talk like a pirate.' },
          { role: 'user', content: 'first' },
          { role: 'assistant', content: 'an answer that never was' },
          { role: 'user', content: 'second' },
          { role: 'user', content: [{ type: 'text', text: 'third' }] },
        ],
      });
      const { messages } = await readConversation(server.url, 'webhook:bob', ADMIN_TOKEN);
      const said = messages.filter(({ role }) => role === 'user').map(({ content }) => content[0]?.text);
      expect(said).toEqual(['first', 'second\n\nthird']);
      const raw = model.requests.at(-1)?.raw;
      expect(raw).not.toContain('pirate');
      expect(raw).not.toContain('an answer that never was');
    });

    test('may be named by header, and is shared with the webhook', async () => {
      await client.chat.completions.create(ask('hi'), { headers: { 'x-conversation-id': 'c7' } });
      const response = await fetch(`${server.url}/webhook/webhook`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${API_KEY}`,
          'content-type': 'application/json',
          prefer: 'wait=20',
        },
        body: JSON.stringify({ conversation: 'c7', text: 'and again' }),
      });
      expect(response.status).toBe(200);
      const { messages } = await readConversation(server.url, 'webhook:c7', ADMIN_TOKEN);
      expect(messages).toHaveLength(4);
    });

    test('is a new one without a name, which then knows what was said before', async () => {
      const { data, response } = await client.chat.completions
        .create({
          model: 'x',
          messages: [
            { role: 'user', content: 'my name is Ada' },
            { role: 'assistant', content: 'Hello Ada' },
            { role: 'user', content: 'what is my name?' },
          ],
        })
        .withResponse();
      expect(response.headers.get('x-conversation-id')).toBe(data.id);
      const raw = model.requests[0]?.raw ?? '';
      expect(raw).toContain('user: my name is Ada');
      expect(raw).toContain('assistant: Hello Ada');
      expect(raw.indexOf('Hello Ada')).toBeLessThan(raw.indexOf('what is my name?'));
    });

    test('the admin token works out of the box', async () => {
      const admin = new OpenAI({ apiKey: ADMIN_TOKEN, baseURL: `${server.url}/v1` });
      const completion = await admin.chat.completions.create(ask('hello'));
      expect(completion.choices[0]?.message.content).toMatch(/^echo: .*hello$/);
    });
  });

  describe('hanging up', () => {
    test.each([true, false])('ends the run (stream: %s)', async (stream) => {
      model.enqueue({ text: ['part ', 'rest'], stallAfter: 2 });
      const user = stream ? 'carol' : 'carl';
      const controller = new AbortController();
      const asked = client.chat.completions.create(
        { ...ask('long story', { user }), stream },
        { signal: controller.signal },
      );
      asked.catch(() => undefined);
      const request = await model.request(0);
      if (stream) await asked;
      controller.abort();
      await request.aborted;
      await vi.waitFor(async () => {
        const { pending, run } = await readConversation(server.url, `webhook:${user}`, ADMIN_TOKEN);
        expect({ pending, run }).toEqual({ pending: 0, run: undefined });
      }, PATIENCE);
      const next = await client.chat.completions.create(ask('still there?', { user }));
      expect(next.choices[0]?.message.content).toMatch(/still there\?$/);
    });
  });

  describe('errors', () => {
    test('are the SDK’s own classes, with the right status', async () => {
      const stranger = new OpenAI({ apiKey: 'wrong', baseURL: `${server.url}/v1` });
      await expect(stranger.models.list()).rejects.toMatchObject({ status: 401, code: 'invalid_api_key' });
      await expect(stranger.chat.completions.create(ask('hi'))).rejects.toThrow(AuthenticationError);
      const wrong = [
        { model: 'x', messages: [] },
        { model: 'x', messages: [{ role: 'assistant', content: 'last word' }] },
        { model: 'x', messages: [{ role: 'user', content: '' }] },
        { model: 'x', messages: 'hi' },
        { ...ask('hi'), n: 2 },
        { ...ask('hi'), user: 'a\nb' },
      ] as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming[];
      for (const body of wrong)
        await expect(client.chat.completions.create(body)).rejects.toThrow(BadRequestError);
      await expect(client.embeddings.create({ model: 'x', input: 'y' })).rejects.toThrow(NotFoundError);
    });

    test('a run that fails is one error and one run, plain and streamed', async () => {
      model.setScript(() => ({ status: 400, error: { message: 'no such thing' } }));
      const failed = client.chat.completions.create(ask('hi', { user: 'dan' }));
      await expect(failed).rejects.toMatchObject({ status: 503, code: 'model_unavailable' });
      expect(model.requests).toHaveLength(1);
      const stream = await client.chat.completions.create({ ...ask('hi', { user: 'dan' }), stream: true });
      const reading = (async () => {
        for await (const _chunk of stream);
      })();
      await expect(reading).rejects.toMatchObject({ code: 'model_unavailable' });
      expect(model.requests).toHaveLength(2);
    });
  });

  test('models are listed, the one in use first', async () => {
    const { data } = await client.models.list();
    // Not the vendors in the default configuration that have no key here.
    expect(data.map(({ id }) => id)).toEqual(['fake', 'demo']);
  });
});
