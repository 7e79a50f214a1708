// WeChat through iLink on the whole server: from a QR code that the API shows to an answer, with kill -9 between append and
// cursor, a restart, a dead login, two accounts, files both ways, and another gateway that takes over.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startIlinkServer, type FakeQr, type IlinkServer } from '../fakes/ilink-server.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';

const { later, track } = useCleanups();
const PATIENCE = { timeout: 20_000 };
const BOT = 'bot-1';
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

/** What every test holds at its end: the protocol was kept, and no token is in any log. */
const held: { ilink: IlinkServer; servers: ServerProcess[] }[] = [];
afterEach(() => {
  for (const { ilink, servers } of held.splice(0)) {
    expect(ilink.violations).toEqual([]);
    expect(servers.flatMap(({ lines }) => lines).join('\n')).not.toContain('secret-token');
  }
});

interface Options {
  faultPoint?: string;
  accounts?: string[];
}

async function setUp(backend: 'sqlite' | 'redis', { faultPoint = '', accounts = ['me'] }: Options = {}) {
  const ilink = track(await startIlinkServer());
  const model = track(await startModelServer());
  const redis = backend === 'redis' ? track(await startRedis()) : undefined;
  const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-weixin-'));
  later(() => rm(dataDir, { recursive: true, force: true }));
  const config = withModel(model.openaiUrl, {
    agent: { retry: { attempts: 0 } },
    workers: { lock_seconds: 2, sweep_seconds: 1 },
    delivery: { base_ms: 20, max_ms: 40, max_attempts: 5 },
    channels: Object.fromEntries(accounts.map((name) => [name, { type: 'weixin', base_url: ilink.url }])),
  });
  const options = {
    config,
    dataDir,
    entry: join(import.meta.dirname, '../fakes/fault-server.ts'),
    env: { FAULT_POINT: faultPoint, FAULT_ONCE: join(dataDir, 'fault') },
    ...(redis ? { redisUrl: redis.url } : {}),
  };
  const servers: ServerProcess[] = [];
  const start = async () => {
    const server = track(await startServer(options));
    servers.push(server);
    return server;
  };
  held.push({ ilink, servers });
  return { ilink, model, server: await start(), start };
}

async function statusOf(server: ServerProcess, account = 'me') {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const response = await fetch(`${server.url}/api/channels`, { headers });
  const text = await response.text();
  expect(text).not.toContain('secret-token');
  const { items } = JSON.parse(text) as { items: { account: string; state: string; qr?: string }[] };
  return items.find((item) => item.account === account);
}

const state = (server: ServerProcess, name: string, account?: string) =>
  vi.waitFor(async () => expect((await statusOf(server, account))?.state).toBe(name), PATIENCE);

/** As a person does it: the QR code that the API shows is scanned. */
async function logIn(server: ServerProcess, ilink: IlinkServer, bot = BOT, account = 'me'): Promise<FakeQr> {
  const qr = await vi.waitFor(async () => {
    const shown = (await statusOf(server, account))?.qr;
    const found = ilink.qrs.find(({ content }) => content === shown);
    expect(found).toBeDefined();
    return found!;
  }, PATIENCE);
  qr.become('scaned');
  await qr.confirm(bot);
  await state(server, 'connected', account);
  return qr;
}

const seen = (ilink: IlinkServer, expected: unknown[], user = 'user-ada') =>
  vi.waitFor(() => expect(ilink.seen(user)).toEqual(expected), PATIENCE);

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  test('from the QR code to an answer; a restart goes on with login, cursor and context token', async () => {
    const { ilink, model, server, start } = await setUp(backend);
    await logIn(server, ilink);
    expect(server.lines.join('\n')).toMatch(/█[\s\S]*channel me: scan this code with WeChat/);
    const { promise: hold, resolve } = Promise.withResolvers<void>();
    model.enqueue({ text: 'well …', hold });
    ilink.say(BOT, { text: 'hello' });
    await vi.waitFor(() => expect(ilink.typing).toMatchObject([{ user: 'user-ada', status: 1 }]), PATIENCE);
    resolve();
    await seen(ilink, ['well …']);
    await vi.waitFor(() => expect(ilink.typing.map(({ status }) => status)).toEqual([1, 2]), PATIENCE);
    await ilink.taken(BOT);
    const cursor = ilink.cursors.at(-1);
    const polls = ilink.cursors.length;
    expect(await server.kill('SIGTERM')).toBe(0);
    const again = await start();
    await state(again, 'connected');
    await vi.waitFor(() => expect(ilink.cursors.length).toBeGreaterThan(polls), PATIENCE);
    expect(ilink.cursors.at(-1)).toBe(cursor);
    ilink.say(BOT, { text: 'still there?' });
    await seen(ilink, ['well …', 'echo: still there?']);
    expect(ilink.qrs).toHaveLength(1);
    expect(ilink.calls.filter(({ path }) => path === 'getconfig')).toHaveLength(1);
  });

  test.each(['before_append', 'after_append'])(
    'killed %s: the message comes again, and is answered once',
    async (faultPoint) => {
      const { ilink, model, server, start } = await setUp(backend, { faultPoint });
      await logIn(server, ilink);
      ilink.say(BOT, { text: 'hello' });
      await server.ended;
      const again = await start();
      await state(again, 'connected');
      await ilink.taken(BOT);
      await seen(ilink, ['echo: hello']);
      // Another one, to have an end to wait for: had the redelivery been answered, it would be before this.
      ilink.say(BOT, { text: 'thanks' });
      await seen(ilink, ['echo: hello', 'echo: thanks']);
      expect(ilink.sends).toHaveLength(2);
      expect(model.requests).toHaveLength(2);
    },
  );
});

test('killed between sending and settling: sent again under the same client_id', async () => {
  const { ilink, server, start } = await setUp('sqlite', { faultPoint: 'before_settle' });
  await logIn(server, ilink);
  ilink.say(BOT, { text: 'hello' });
  await server.ended;
  await start();
  await vi.waitFor(() => expect(ilink.sends).toHaveLength(2), PATIENCE);
  expect(new Set(ilink.sends.map(({ clientId }) => clientId)).size).toBe(1);
});

test('a login that ends while a run is at work: the answer goes out after the next one', async () => {
  const { ilink, model, server } = await setUp('sqlite');
  await logIn(server, ilink);
  const { promise: hold, resolve } = Promise.withResolvers<void>();
  model.enqueue({ text: 'at last', hold });
  ilink.say(BOT, { text: 'take your time' });
  await model.request(0);
  ilink.kill(BOT, 'errcode');
  await state(server, 'waiting_for_login');
  resolve();
  await server.line(/delivery waits/);
  const polls = ilink.cursors.length;
  expect(ilink.sends).toEqual([]);
  expect(ilink.cursors).toHaveLength(polls);
  await logIn(server, ilink);
  await seen(ilink, ['at last']);
});

test('two accounts at once, each with its own people', async () => {
  const { ilink, server } = await setUp('sqlite', { accounts: ['me', 'work'] });
  await logIn(server, ilink, 'bot-me', 'me');
  await logIn(server, ilink, 'bot-work', 'work');
  ilink.say('bot-me', { text: 'private' });
  ilink.say('bot-work', { text: 'business', from: 'user-bob' });
  await seen(ilink, ['echo: private']);
  await seen(ilink, ['echo: business'], 'user-bob');
  expect(ilink.sends.map(({ bot, to }) => `${bot} ${to}`).sort()).toEqual([
    'bot-me user-ada',
    'bot-work user-bob',
  ]);
});

test('a picture reaches the model as one', async () => {
  const { ilink, model, server } = await setUp('sqlite');
  await logIn(server, ilink);
  ilink.say(BOT, {
    items: [
      { type: 2, image_item: { media: ilink.put(PNG, 'hex') } },
      { type: 1, text_item: { text: 'what is this?' } },
    ],
  });
  const { body } = await model.request(0);
  expect(JSON.stringify(body)).toContain(PNG.toString('base64'));
  await vi.waitFor(() => expect(ilink.sends).toHaveLength(1), PATIENCE);
});

test('of two gateways one polls, and the other takes over when it is killed', async () => {
  const { ilink, server, start } = await setUp('redis');
  await logIn(server, ilink);
  const other = await start();
  await state(other, 'connected');
  ilink.say(BOT, { text: 'one' });
  await seen(ilink, ['echo: one']);
  await ilink.taken(BOT);
  expect(ilink.polls(BOT)).toBeLessThanOrEqual(1);
  await server.kill('SIGKILL');
  ilink.say(BOT, { text: 'two' });
  await seen(ilink, ['echo: one', 'echo: two']);
  expect(ilink.qrs).toHaveLength(1);
});
