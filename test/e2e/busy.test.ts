// What a message does when it meets an active run: steering into it, waiting for its own answer, cancelling.
import { describe, expect, test, vi } from 'vitest';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer, type RecordedRequest } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';

const { track } = useCleanups();

interface Bench {
  model: ModelServer;
  server: ServerProcess;
  client: ReturnType<typeof createWebhookClient>;
}

async function setUp(backend: string, agent: Record<string, unknown> = {}): Promise<Bench> {
  const model = track(await startModelServer());
  const redis = backend === 'redis' ? track(await startRedis()) : undefined;
  const channels = { webhook: { type: 'webhook', api_keys: [API_KEY], allow_private_callbacks: true } };
  const server = track(
    await startServer({
      config: withModel(model.openaiUrl, { channels, agent }),
      ...(redis ? { redisUrl: redis.url } : {}),
    }),
  );
  return { model, server, client: createWebhookClient(() => server.url) };
}

/** The model's first answer waits until `go` is called. */
function held(model: ModelServer, reply: object): () => void {
  let go = (): void => undefined;
  model.enqueue({ ...reply, hold: new Promise<void>((resolve) => (go = resolve)) });
  return () => go();
}

describe.each(['sqlite', 'redis'])('on %s', (backend) => {
  test('steer: the message is taken at the next boundary and shares the answer; each callback is called once', async () => {
    const { model, client, server } = await setUp(backend);
    const first = track(await startCallbackReceiver());
    const second = track(await startCallbackReceiver());
    const go = held(model, { calls: [{ name: 'now', arguments: {} }] });
    await client.send('what time is it', { id: 'a', body: { callback_url: first.url } });
    await model.request(0);
    await client.send('in Berlin, I mean', { id: 'b', body: { callback_url: second.url } });
    await client.send('and say it nicely', { id: 'c', body: { callback_url: second.url } });
    go();
    const answers = await Promise.all(['a', 'b', 'c'].map((id) => client.settled(id)));
    expect(new Set(answers.map((answer) => answer.reply?.text)).size).toBe(1);
    expect(model.requests).toHaveLength(2);
    await vi.waitFor(() => expect(first.received.length + second.received.length).toBe(2), {
      timeout: 10_000,
    });
    expect(first.received[0]!.body).toMatchObject({ id: 'a' });
    // The second is called once for both of its messages, named after the newest.
    expect(second.received).toHaveLength(1);
    const { messages } = await readConversation(server.url, 'webhook:c1', ADMIN_TOKEN);
    expect(messages.flatMap((message) => message.id ?? [])).toEqual(['a', 'b', 'c']);
    expect(new Set(messages.map((message) => message.run)).size).toBe(1);
  });

  test('followup: each message gets an answer of its own, in order', async () => {
    const { model, client, server } = await setUp(backend, { on_busy: { direct: 'followup' } });
    const go = held(model, { text: 'first answer' });
    await client.send('one', { id: 'a' });
    await model.request(0);
    await client.send('two', { id: 'b' });
    await client.send('three', { id: 'c' });
    go();
    const answers = await Promise.all(['a', 'b', 'c'].map((id) => client.settled(id)));
    expect(answers.map((answer) => answer.reply?.text)).toEqual([
      'first answer',
      expect.stringMatching(/two$/),
      expect.stringMatching(/three$/),
    ]);
    const { messages } = await readConversation(server.url, 'webhook:c1', ADMIN_TOKEN);
    expect(messages.map((message) => message.role)).toEqual([1, 2, 3].flatMap(() => ['user', 'assistant']));
  });

  test('interrupt: the run is cancelled and the new message answered', async () => {
    const { model, client } = await setUp(backend, { on_busy: { direct: 'interrupt' } });
    model.enqueue({ text: ['a long ', 'story'], stallAfter: 3 });
    await client.send('tell me a story', { id: 'a' });
    await model.request(0);
    await client.send('no, a joke', { id: 'b' });
    expect(await client.settled('a')).toMatchObject({ status: expect.any(String) });
    const joke = await client.settled('b');
    expect(joke.reply?.text).toMatch(/no, a joke$/);
    expect(model.requests).toHaveLength(2);
  });

  test('collect: what is said within the pause is answered once', async () => {
    const { model, client } = await setUp(backend, { on_busy: { direct: 'collect' }, debounce_ms: 1_500 });
    const ids = ['a', 'b', 'c'];
    await Promise.all(ids.map((id) => client.send(`part ${id}`, { id })));
    const answers = await Promise.all(ids.map((id) => client.settled(id)));
    expect(new Set(answers.map((answer) => answer.reply?.text)).size).toBe(1);
    expect(model.requests).toHaveLength(1);
    for (const id of ids) expect(model.requests[0]!.raw).toContain(`part ${id}`);
  });

  test('a backlog that waits for a worker is answered in arrival order', async () => {
    const { model, client, server } = await setUp(backend, { on_busy: { direct: 'followup' } });
    const ids = Array.from({ length: 12 }, (_, n) => `m${n}`);
    for (const id of ids) await client.send(id, { id });
    await Promise.all(ids.map((id) => client.settled(id)));
    const { messages } = await readConversation(server.url, 'webhook:c1', ADMIN_TOKEN);
    expect(messages.flatMap((message) => message.id ?? [])).toEqual(ids);
    expect(model.requests).toHaveLength(ids.length);
  });

  // Ten messages at once, in about a second or less, while the first one's answer is being written (a tool call, so that a run has a
  // boundary); to the bot alone, and in a group. What is documented in docs/operator.md, row by row.
  describe('a burst of ten', () => {
    const ids = Array.from({ length: 10 }, (_, n) => `m${n}`);
    const group = (n: number) => ({
      group: true,
      mentioned: true,
      sender: { id: `u${n % 3}`, name: `Person ${n % 3}` },
    });

    interface Burst {
      requests: RecordedRequest[];
      answers: (string | undefined)[];
      runs: number;
    }

    async function burst({ model, client, server }: Bench, chat: string, mode: string): Promise<Burst> {
      const first = model.requests.length;
      const send = (n: number) =>
        client.send(`m${n}`, {
          id: `${chat}-m${n}`,
          conversation: chat,
          body: chat === 'group' ? group(n) : {},
        });
      const go = held(model, { calls: [{ name: 'now', arguments: {} }] });
      await send(0);
      if (mode !== 'collect') await model.request(first);
      // One right after the other, in order, as a platform delivers them.
      for (let n = 1; n < 10; n++) await send(n);
      go();
      const settled = await Promise.all(ids.map((id) => client.settled(`${chat}-${id}`)));
      const { messages } = await readConversation(server.url, `webhook:${chat}`, ADMIN_TOKEN);
      // Whatever the mode: each is in the history once, in the order of arrival.
      expect(messages.flatMap((message) => message.id ?? [])).toEqual(ids.map((id) => `${chat}-${id}`));
      return {
        requests: model.requests.slice(first),
        answers: settled.map(({ reply }) => reply?.text),
        runs: new Set(messages.map((message) => message.run)).size,
      };
    }

    /** Both kinds of chat on one server. */
    async function bursts(mode: string, check: (burst: Burst) => void, more: Record<string, unknown> = {}) {
      const bench = await setUp(backend, { on_busy: { direct: mode, group: mode }, ...more });
      for (const chat of ['direct', 'group']) check(await burst(bench, chat, mode));
    }

    const shows = ({ raw }: RecordedRequest, id: string): boolean =>
      new RegExp(String.raw`\] (?:Person \d: )?${id}\b`).test(raw);

    test('steer: one run, one answer for all; those behind the first are seen at its next step', () =>
      bursts('steer', ({ requests, answers, runs }) => {
        expect(runs).toBe(1);
        expect(new Set(answers).size).toBe(1);
        expect(requests).toHaveLength(2);
        expect(ids.filter((id) => shows(requests[0]!, id))).toEqual(['m0']);
        expect(ids.filter((id) => shows(requests[1]!, id))).toEqual(ids);
      }));

    test('followup: ten runs, ten answers, in order', () =>
      bursts('followup', ({ answers, runs }) => {
        expect(runs).toBe(10);
        for (const [n, answer] of answers.entries())
          if (n > 0) expect(answer).toMatch(new RegExp(String.raw`\bm${n}$`));
      }));

    test('collect: with a pause, one run that begins after it, one answer for all', () =>
      bursts(
        'collect',
        ({ requests, answers, runs }) => {
          expect(runs).toBe(1);
          expect(new Set(answers).size).toBe(1);
          expect(ids.filter((id) => shows(requests[0]!, id))).toEqual(ids);
        },
        { debounce_ms: 2_000 },
      ));

    test('interrupt: the first is cancelled, the newest is answered, none is lost', () =>
      bursts('interrupt', ({ answers, runs }) => {
        expect(runs).toBeGreaterThanOrEqual(2);
        expect(runs).toBeLessThanOrEqual(10);
        expect(answers.at(-1)).toMatch(/\bm9$/);
        expect(answers[0]).not.toBe(answers.at(-1));
        for (const answer of answers) expect(answer).toBeTruthy();
      }));
  });
});
