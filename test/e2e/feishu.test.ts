// Feishu on the whole server and both backends: from a mention in a group, through a run with a tool, to one answer in the
// thread; with redeliveries, kill -9 at bad moments, streaming, and messages that are taken back.
import { createCipheriv, createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import {
  APP_ID,
  APP_SECRET,
  BOT_OPEN_ID,
  messageEvent,
  recallEvent,
  startFeishuServer,
} from '../fakes/feishu-server.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { startServer, withModel } from '../fakes/server.ts';

const { later, track } = useCleanups();

const bot = { openId: BOT_OPEN_ID, name: 'Lane' };
const PATIENCE = { timeout: 20_000 };

interface Options {
  faultPoint?: string;
  feishu?: Record<string, unknown>;
}

async function setUp(backend: 'sqlite' | 'redis', { faultPoint = '', feishu: more = {} }: Options = {}) {
  const feishu = track(await startFeishuServer());
  const model = track(await startModelServer());
  const redis = backend === 'redis' ? track(await startRedis()) : undefined;
  const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-feishu-'));
  later(() => rm(dataDir, { recursive: true, force: true }));
  const config = withModel(model.openaiUrl, {
    agent: { retry: { attempts: 0 } },
    workers: { lock_seconds: 2, sweep_seconds: 1 },
    delivery: { base_ms: 20, max_ms: 40, max_attempts: 5, timeout_ms: 3_000 },
    channels: {
      team: { type: 'feishu', app_id: APP_ID, app_secret: APP_SECRET, domain: feishu.url, ...more },
    },
  });
  const options = {
    config,
    dataDir,
    entry: join(import.meta.dirname, '../fakes/fault-server.ts'),
    env: { FAULT_POINT: faultPoint, FAULT_ONCE: join(dataDir, 'fault') },
    ...(redis ? { redisUrl: redis.url } : {}),
  };
  const start = async () => {
    const started = track(await startServer(options));
    // Not feishu.connected(): the vendor's client loses what comes before it listens.
    await started.line(/long connection is up/);
    return started;
  };
  return { feishu, model, server: await start(), start };
}

const question = (text: string, id = 'om_1') =>
  messageEvent({
    id,
    group: true,
    thread: 'omt_1',
    root: 'om_root',
    parent: 'om_root',
    text: `@_user_1 ${text}`,
    mentions: [bot],
  });

/** No reaction is left, and what is seen stays as it is when everything has been delivered. */
async function settled(feishu: Awaited<ReturnType<typeof startFeishuServer>>, expected: unknown[]) {
  await vi.waitFor(() => {
    expect(feishu.seen('oc_chat')).toEqual(expected);
    expect([...feishu.reactions.values()].map(({ size }) => size).every((size) => size === 0)).toBe(true);
    expect([...feishu.cards.values()].some(({ streaming }) => streaming)).toBe(false);
  }, PATIENCE);
}

const RESULT = expect.stringMatching(/^result: 20\d\d-/) as unknown;

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  test('a mention in a thread of a group is answered once, there, after a tool; a redelivery changes nothing', async () => {
    const { feishu } = await setUp(backend, { feishu: { streaming: false } });
    expect(await feishu.push(messageEvent({ group: true, text: 'just chatting' }))).toBe(200);
    const event = question('use:now');
    expect(await feishu.push(event)).toBe(200);
    expect(await feishu.push(event)).toBe(200);
    await settled(feishu, [RESULT]);
    expect(await feishu.push(event)).toBe(200);
    // Another one, to have an end to wait for: had the redelivery been answered, it would be before this.
    expect(await feishu.push(question('thanks', 'om_2'))).toBe(200);
    await settled(feishu, [RESULT, 'echo: ou_ada: thanks']);
    expect(feishu.messages.map(({ replyTo, inThread, type }) => ({ replyTo, inThread, type }))).toEqual([
      { replyTo: 'om_1', inThread: true, type: 'post' },
      { replyTo: 'om_2', inThread: true, type: 'post' },
    ]);
    expect(feishu.calls.some(({ path, method }) => method === 'POST' && path.endsWith('/reactions'))).toBe(
      true,
    );
  });

  test('a process that dies before a message is durable has not acknowledged it; the redelivery is answered', async () => {
    const { feishu, server, start } = await setUp(backend, { faultPoint: 'before_append' });
    const lost = feishu.push(question('hello')).catch(() => 'no acknowledgement');
    await server.ended;
    expect(await lost).toBe('no acknowledgement');
    await start();
    expect(await feishu.push(question('hello'))).toBe(200);
    await settled(feishu, ['echo: ou_ada: hello']);
  });

  test('killed between sending and settling: sent again with the same uuid, seen once', async () => {
    const { feishu, server, start } = await setUp(backend, {
      faultPoint: 'before_settle',
      feishu: { streaming: false },
    });
    await feishu.push(question('hello'));
    await server.ended;
    expect(feishu.seen('oc_chat')).toEqual(['echo: ou_ada: hello']);
    await start();
    const sends = () => feishu.calls.filter(({ path }) => path.endsWith('/reply'));
    await vi.waitFor(() => expect(sends()).toHaveLength(2), PATIENCE);
    const uuids = sends().map(({ body }) => body['uuid']);
    expect(uuids[0]).toBe(uuids[1]);
    await settled(feishu, ['echo: ou_ada: hello']);
  });

  test('an answer grows in one card; a message that is taken back stops its run', async () => {
    const { feishu, model } = await setUp(backend);
    const words = ['Once', ' upon', ' a', ' time', ' there', ' was', ' an', ' end', '.'];
    model.enqueue({ text: words, chunkDelayMs: 100 });
    await feishu.push(question('tell me a story'));
    await settled(feishu, [words.join('')]);
    expect(feishu.messages).toMatchObject([{ type: 'interactive', replyTo: 'om_1', inThread: true }]);
    const [card] = feishu.cards.values();
    expect(card?.contents.length).toBeGreaterThan(2);
    for (const content of card?.contents ?? []) expect(words.join('').startsWith(content)).toBe(true);

    const { promise: hold, resolve } = Promise.withResolvers<void>();
    const asked = model.requests.length;
    model.enqueue({ text: 'too late', hold });
    await feishu.push(question('oops', 'om_2'));
    await model.request(asked);
    expect(await feishu.push(recallEvent('om_2'))).toBe(200);
    await vi.waitFor(() => expect(feishu.messages).toHaveLength(2), PATIENCE);
    resolve();
    expect(feishu.seen('oc_chat').at(-1)).not.toContain('too late');
  });

  test.each(['before_commit', 'before_settle'])(
    'killed at %s while a card is there: the same card is finished',
    async (faultPoint) => {
      const { feishu, model, server, start } = await setUp(backend, { faultPoint });
      const words = ['One', ' two', ' three', ' four', ' five.'];
      model.enqueue({ text: words, chunkDelayMs: 150 });
      await feishu.push(question('count'));
      await server.ended;
      expect(feishu.messages).toHaveLength(1);
      model.enqueue({ text: 'One two three, once more.' });
      await start();
      await settled(feishu, [faultPoint === 'before_commit' ? 'One two three, once more.' : words.join('')]);
      expect(feishu.messages).toHaveLength(1);
      expect(feishu.cards.size).toBe(1);
    },
  );
});

test('webhook mode: signed events are taken, others are not, and the server goes on', async () => {
  const feishu = track(await startFeishuServer());
  const model = track(await startModelServer());
  const app = { type: 'feishu', app_id: APP_ID, app_secret: APP_SECRET, domain: feishu.url };
  const config = withModel(model.openaiUrl, {
    channels: { team: { ...app, mode: 'webhook', encrypt_key: 'key', streaming: false } },
  });
  const server = track(await startServer({ config }));
  await server.line(/the bot is known/);
  const post = (body: string, headers: Record<string, string> = {}) =>
    fetch(`${server.url}/channels/team/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    });
  const iv = randomBytes(16);
  const cipher = createCipheriv('aes-256-cbc', createHash('sha256').update('key').digest(), iv);
  const event = JSON.stringify(messageEvent({ text: 'hello' }));
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
  await vi.waitFor(() => expect(feishu.seen('oc_chat')).toEqual(['echo: hello']), PATIENCE);
  expect((await fetch(`${server.url}/channels/web/events`, { method: 'POST' })).status).toBe(404);
});

test('when cards fail, one answer is seen all the same', async () => {
  const { feishu, model } = await setUp('sqlite');
  const words = ['One', ' two', ' three', ' four', ' five.'];
  let at = 0;
  /** The messages of one more answer, when nothing about it changes any more. */
  async function answer(chunkDelayMs: number, failures: Parameters<typeof feishu.fail>[]) {
    feishu.heal();
    for (const failure of failures) feishu.fail(...failure);
    const [messages, calls, id] = [feishu.messages.length, feishu.calls.length, `om_${(at += 1)}`];
    model.enqueue({ text: words, chunkDelayMs });
    await feishu.push(question('count', id));
    await settled(
      feishu,
      Array.from({ length: at }, () => words.join('')),
    );
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
  await feishu.push(question('count', 'om_last'));
  await vi.waitFor(
    () => expect(feishu.seen('oc_chat')).toEqual(Array.from({ length: at + 1 }, () => words.join(''))),
    PATIENCE,
  );
  expect(feishu.messages.slice(before).map(({ type, recalled }) => ({ type, recalled }))).toEqual([
    { type: 'interactive', recalled: true },
    { type: 'post', recalled: false },
  ]);
});
