// What a message does when it meets an active run: steering into it, waiting for its own answer, cancelling.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer, type RecordedRequest } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';

const { track } = useCleanups();

let chats = 0;

/** One server, which changes its mode while it runs: in direct chats and groups alike. Every test has a chat of its own. */
function useRig(backend: string) {
  const shared = useCleanups(afterAll);
  let first: ModelServer;
  let server: ServerProcess;
  let current = 'followup';
  const client = createWebhookClient(() => server.url);
  const configOf = (mode: string) =>
    withModel(first.openaiUrl, {
      channels: { webhook: { type: 'webhook', api_keys: [API_KEY], allow_private_callbacks: true } },
      agent: {
        on_busy: { direct: mode, group: mode },
        ...(mode === 'collect' ? { debounce_ms: 2_000 } : {}),
      },
    });
  beforeAll(async () => {
    first = shared.track(await startModelServer());
    const redis = backend === 'redis' ? { redisUrl: shared.track(await startRedis()).url } : {};
    server = shared.track(await startServer({ config: configOf(current), ...redis }));
  });

  /** A chat, and what the model is asked from now on. */
  return async function setUp(mode: string) {
    if (mode !== current) await server.configure(configOf(mode));
    current = mode;
    const model = first.renewed();
    const chat = `c${(chats += 1)}`;
    const named = (id: string) => `${chat}-${id}`;
    return {
      chat,
      named,
      model,
      client: {
        send: (text: string, { id, ...more }: { id: string; body?: Record<string, unknown> }) =>
          client.send(text, { conversation: chat, id: named(id), ...more }),
        settled: (id: string) => client.settled(named(id)),
      },
      history: () => readConversation(server.url, `webhook:${chat}`, ADMIN_TOKEN),
    };
  };
}
type Bench = Awaited<ReturnType<ReturnType<typeof useRig>>>;

/** The model's first answer waits until `go` is called. */
function held(model: ModelServer, reply: object): () => void {
  let go = (): void => undefined;
  model.enqueue({ ...reply, hold: new Promise<void>((resolve) => (go = resolve)) });
  return () => go();
}

describe.each(['sqlite', 'redis'])('on %s', (backend) => {
  const setUp = useRig(backend);

  test('steer: the message is taken at the next boundary and shares the answer; each callback is called once', async () => {
    const { model, named, client, history } = await setUp('steer');
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
    expect(first.received[0]!.body).toMatchObject({ id: named('a') });
    // The second is called once for both of its messages, named after the newest.
    expect(second.received).toHaveLength(1);
    const { messages } = await history();
    expect(messages.flatMap((message) => message.id ?? [])).toEqual(['a', 'b', 'c'].map(named));
    expect(new Set(messages.map((message) => message.run)).size).toBe(1);
  });

  test('followup: each message gets an answer of its own, in order', async () => {
    const { model, client, history } = await setUp('followup');
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
    const { messages } = await history();
    expect(messages.map((message) => message.role)).toEqual([1, 2, 3].flatMap(() => ['user', 'assistant']));
  });

  test('interrupt: the run is cancelled and the new message answered', async () => {
    const { model, client } = await setUp('interrupt');
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
    const { model, client } = await setUp('collect');
    const ids = ['a', 'b', 'c'];
    await Promise.all(ids.map((id) => client.send(`part ${id}`, { id })));
    const answers = await Promise.all(ids.map((id) => client.settled(id)));
    expect(new Set(answers.map((answer) => answer.reply?.text)).size).toBe(1);
    expect(model.requests).toHaveLength(1);
    for (const id of ids) expect(model.requests[0]!.raw).toContain(`part ${id}`);
  });

  test('a backlog that waits for a worker is answered in arrival order', async () => {
    const { model, named, client, history } = await setUp('followup');
    const ids = Array.from({ length: 12 }, (_, n) => `m${n}`);
    for (const id of ids) await client.send(id, { id });
    await Promise.all(ids.map((id) => client.settled(id)));
    const { messages } = await history();
    expect(messages.flatMap((message) => message.id ?? [])).toEqual(ids.map(named));
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

    async function burst(
      { model, named, client, history }: Bench,
      body: (n: number) => object,
      mode: string,
    ): Promise<Burst> {
      const send = (n: number) => client.send(`m${n}`, { id: `m${n}`, body: { ...body(n) } });
      const go = held(model, { calls: [{ name: 'now', arguments: {} }] });
      await send(0);
      if (mode !== 'collect') await model.request(0);
      // One right after the other, in order, as a platform delivers them.
      for (let n = 1; n < 10; n++) await send(n);
      go();
      const settled = await Promise.all(ids.map((id) => client.settled(id)));
      const { messages } = await history();
      // Whatever the mode: each is in the history once, in the order of arrival.
      expect(messages.flatMap((message) => message.id ?? [])).toEqual(ids.map(named));
      return {
        requests: model.requests,
        answers: settled.map(({ reply }) => reply?.text),
        runs: new Set(messages.map((message) => message.run)).size,
      };
    }

    /** In both kinds of chat. */
    async function bursts(mode: string, check: (burst: Burst) => void) {
      for (const body of [() => ({}), group]) check(await burst(await setUp(mode), body, mode));
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
      bursts('collect', ({ requests, answers, runs }) => {
        expect(runs).toBe(1);
        expect(new Set(answers).size).toBe(1);
        expect(ids.filter((id) => shows(requests[0]!, id))).toEqual(ids);
      }));

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
