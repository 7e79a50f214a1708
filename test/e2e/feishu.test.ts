// Feishu on the whole server and both backends: from a mention in a group, through a run with a tool, to one answer in the
// thread; with redeliveries, kill -9 at bad moments, streaming, and messages that are taken back.
import { createCipheriv, createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import {
  APP_ID,
  APP_SECRET,
  BOT_OPEN_ID,
  messageEvent,
  OTHER_APP,
  recallEvent,
  startFeishuServer,
  THIRD_APP,
  type FeishuServer,
} from '../fakes/feishu-server.ts';
import type { ModelServer } from '../fakes/model-server.ts';
import { startSystem, type System } from '../fakes/system.ts';

const PATIENCE = { timeout: 20_000 };
const RESULT = expect.stringMatching(/^result: 20\d\d-/) as unknown;

let chats = 0;

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  const shared = useCleanups(afterAll);
  let feishu: FeishuServer;
  let system: System;
  let model: ModelServer;
  beforeAll(async () => {
    feishu = shared.track(await startFeishuServer());
    const app = { type: 'feishu', domain: feishu.url };
    const channels = {
      team: { ...app, app_id: APP_ID, app_secret: APP_SECRET },
      // Answers with plain posts.
      plain: { ...app, app_id: OTHER_APP.id, app_secret: OTHER_APP.secret, streaming: false },
      hooked: {
        ...app,
        app_id: THIRD_APP.id,
        app_secret: THIRD_APP.secret,
        streaming: false,
        mode: 'webhook',
        encrypt_key: 'key',
      },
    };
    system = await startSystem(shared, {
      backend,
      config: { delivery: { base_ms: 20, max_ms: 40, max_attempts: 5, timeout_ms: 3_000 }, channels },
      async up(server) {
        // Not feishu.connected(): the vendor's client loses what comes before it listens.
        for (const account of ['team', 'plain'])
          await server.line(new RegExp(`"account":"${account}".*long connection is up`));
        await server.line(/"account":"hooked".*the bot is known/);
      },
    });
  });

  beforeEach(async () => {
    await system.server();
    feishu.clear();
    model = system.model.renewed();
  });

  /** A chat of its own. */
  function setUp(account: 'team' | 'plain') {
    const chat = `oc_${(chats += 1)}`;
    const named = (id: string) => `om_${chat}_${id}`;
    const [app, openId] = account === 'team' ? [APP_ID, BOT_OPEN_ID] : [OTHER_APP.id, OTHER_APP.botOpenId];
    return {
      chat,
      named,
      question: (text: string, id = '1') =>
        messageEvent({
          app,
          chat,
          id: named(id),
          group: true,
          thread: `omt_${chat}`,
          root: `om_root_${chat}`,
          parent: `om_root_${chat}`,
          text: `@_user_1 ${text}`,
          mentions: [{ openId, name: 'Lane' }],
        }),
      /** No reaction is left, and what is seen stays as it is when everything has been delivered. */
      settled: (expected: unknown[]) =>
        vi.waitFor(() => {
          expect(feishu.seen(chat)).toEqual(expected);
          expect([...feishu.reactions.values()].every(({ size }) => size === 0)).toBe(true);
          expect([...feishu.cards.values()].some(({ streaming }) => streaming)).toBe(false);
        }, PATIENCE),
    };
  }

  test('a mention in a thread of a group is answered once, there, after a tool; a redelivery changes nothing', async () => {
    const { chat, named, question, settled } = setUp('plain');
    const chatter = messageEvent({ app: OTHER_APP.id, chat, group: true, text: 'just chatting' });
    expect(await feishu.push(chatter)).toBe(200);
    const event = question('use:now');
    expect(await feishu.push(event)).toBe(200);
    expect(await feishu.push(event)).toBe(200);
    await settled([RESULT]);
    expect(await feishu.push(event)).toBe(200);
    // Another one, to have an end to wait for: had the redelivery been answered, it would be before this.
    expect(await feishu.push(question('thanks', '2'))).toBe(200);
    await settled([RESULT, 'echo: ou_ada: thanks']);
    expect(feishu.messages.map(({ replyTo, inThread, type }) => ({ replyTo, inThread, type }))).toEqual([
      { replyTo: named('1'), inThread: true, type: 'post' },
      { replyTo: named('2'), inThread: true, type: 'post' },
    ]);
    expect(feishu.calls.some(({ path, method }) => method === 'POST' && path.endsWith('/reactions'))).toBe(
      true,
    );
  });

  test('a process that dies before a message is durable has not acknowledged it; the redelivery is answered', async () => {
    const { question, settled } = setUp('team');
    const doomed = await system.killedAt('before_append');
    const lost = feishu.push(question('hello')).catch(() => 'no acknowledgement');
    await doomed.ended;
    expect(await lost).toBe('no acknowledgement');
    await system.server();
    expect(await feishu.push(question('hello'))).toBe(200);
    await settled(['echo: ou_ada: hello']);
  });

  test('killed between sending and settling: sent again with the same uuid, seen once', async () => {
    const { chat, question, settled } = setUp('plain');
    const doomed = await system.killedAt('before_settle');
    await feishu.push(question('hello'));
    await doomed.ended;
    expect(feishu.seen(chat)).toEqual(['echo: ou_ada: hello']);
    await system.server();
    const sends = () => feishu.calls.filter(({ path }) => path.endsWith('/reply'));
    await vi.waitFor(() => expect(sends()).toHaveLength(2), PATIENCE);
    const uuids = sends().map(({ body }) => body['uuid']);
    expect(uuids[0]).toBe(uuids[1]);
    await settled(['echo: ou_ada: hello']);
  });

  test('an answer grows in one card; a message that is taken back stops its run', async () => {
    const { chat, named, question, settled } = setUp('team');
    const words = ['Once', ' upon', ' a', ' time', ' there', ' was', ' an', ' end', '.'];
    model.enqueue({ text: words, chunkDelayMs: 100 });
    await feishu.push(question('tell me a story'));
    await settled([words.join('')]);
    expect(feishu.messages).toMatchObject([{ type: 'interactive', replyTo: named('1'), inThread: true }]);
    const [card] = feishu.cards.values();
    expect(card?.contents.length).toBeGreaterThan(2);
    for (const content of card?.contents ?? []) expect(words.join('').startsWith(content)).toBe(true);

    const { promise: hold, resolve } = Promise.withResolvers<void>();
    const asked = model.requests.length;
    model.enqueue({ text: 'too late', hold });
    await feishu.push(question('oops', '2'));
    await model.request(asked);
    expect(await feishu.push(recallEvent(named('2'), chat))).toBe(200);
    await vi.waitFor(() => expect(feishu.messages).toHaveLength(2), PATIENCE);
    resolve();
    await settled([words.join(''), expect.not.stringContaining('too late')]);
  });

  test.each(['before_commit', 'before_settle'] as const)(
    'killed at %s while a card is there: the same card is finished',
    async (faultPoint) => {
      const { question, settled } = setUp('team');
      const doomed = await system.killedAt(faultPoint);
      const words = ['One', ' two', ' three', ' four', ' five.'];
      model.enqueue({ text: words, chunkDelayMs: 150 });
      await feishu.push(question('count'));
      await doomed.ended;
      expect(feishu.messages).toHaveLength(1);
      if (faultPoint === 'before_commit') model.enqueue({ text: 'One two three, once more.' });
      await system.server();
      await settled([faultPoint === 'before_commit' ? 'One two three, once more.' : words.join('')]);
      expect(feishu.messages).toHaveLength(1);
      expect(feishu.cards.size).toBe(1);
    },
  );

  // Of what follows nothing differs by backend.
  if (backend === 'redis') return;

  test('webhook mode: signed events are taken, others are not, and the server goes on', async () => {
    const server = await system.server();
    const post = (body: string, headers: Record<string, string> = {}) =>
      fetch(`${server.url}/channels/hooked/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body,
      });
    const iv = randomBytes(16);
    const cipher = createCipheriv('aes-256-cbc', createHash('sha256').update('key').digest(), iv);
    const event = JSON.stringify(messageEvent({ app: THIRD_APP.id, chat: 'oc_hooked', text: 'hello' }));
    const body = JSON.stringify({
      encrypt: Buffer.concat([iv, cipher.update(event), cipher.final()]).toString('base64'),
    });
    const timestamp = String(Math.floor(Date.now() / 1000));
    const signature = createHash('sha256').update(`${timestamp}noncekey${body}`).digest('hex');
    const headers = {
      'x-lark-request-timestamp': timestamp,
      'x-lark-request-nonce': 'nonce',
      'x-lark-signature': signature,
    };
    for (const attack of ['{', '[]', '{"encrypt":"AAAA"}', event, body, `{"encrypt":"${'A'.repeat(99)}"}`])
      expect((await post(attack)).status).toBe(401);
    expect((await post('x'.repeat(2_000_000))).status).toBe(413);
    expect((await post(body, headers)).status).toBe(200);
    expect((await post(body, headers)).status).toBe(200);
    await vi.waitFor(() => expect(feishu.seen('oc_hooked')).toEqual(['echo: hello']), PATIENCE);
    expect((await fetch(`${server.url}/channels/web/events`, { method: 'POST' })).status).toBe(404);
  });

  test('when cards fail, one answer is seen all the same', async () => {
    const { chat, question, settled } = setUp('team');
    const words = ['One', ' two', ' three', ' four', ' five.'];
    let at = 0;
    /** The messages of one more answer, when nothing about it changes any more. */
    async function answer(chunkDelayMs: number, failures: Parameters<typeof feishu.fail>[]) {
      feishu.heal();
      for (const failure of failures) feishu.fail(...failure);
      const [messages, calls, id] = [feishu.messages.length, feishu.calls.length, `${(at += 1)}`];
      model.enqueue({ text: words, chunkDelayMs });
      await feishu.push(question('count', id));
      await settled(Array.from({ length: at }, () => words.join('')));
      return { sent: feishu.messages.slice(messages), calls: feishu.calls.slice(calls) };
    }
    const noCards: Parameters<typeof feishu.fail> = [
      'POST',
      /^\/cardkit\/v1\/cards$/,
      { status: 400, code: 99991672, times: 100 },
    ];

    // No streaming cards: one message is updated instead.
    const updated = await answer(600, [noCards]);
    expect(updated.sent).toHaveLength(1);
    expect(updated.calls.filter(({ method }) => method === 'PATCH').length).toBeGreaterThan(1);

    // No cards at all. The draft's message is refused, at its first sight and when the answer is delivered; then the post goes out.
    const plain = await answer(100, [noCards, ['POST', /\/reply$/, { status: 400, code: 230099, times: 2 }]]);
    expect(plain.sent).toMatchObject([{ type: 'post' }]);

    // The answer to a card's sending is lost: still one card.
    const lost = await answer(100, [['POST', /\/reply$/, { lost: true }]]);
    expect(lost.sent).toHaveLength(1);

    // A card that can be neither written nor replaced gives way to a plain answer. Last: it stays streaming, taken back.
    feishu.heal();
    const before = feishu.messages.length;
    feishu.fail('PUT', /^\/cardkit\//, { status: 400, code: 300305, times: 100 });
    feishu.fail('PATCH', /^\/im\/v1\/messages\//, { status: 400, code: 230099, times: 100 });
    model.enqueue({ text: words, chunkDelayMs: 100 });
    await feishu.push(question('count', 'last'));
    await vi.waitFor(
      () => expect(feishu.seen(chat)).toEqual(Array.from({ length: at + 1 }, () => words.join(''))),
      PATIENCE,
    );
    expect(feishu.messages.slice(before).map(({ type, recalled }) => ({ type, recalled }))).toEqual([
      { type: 'interactive', recalled: true },
      { type: 'post', recalled: false },
    ]);
  });
});
