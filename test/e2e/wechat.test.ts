// WeChat through wechaty on the whole server: from the code that waits to be scanned to answers in a room, through logouts, dying
// child processes, and the server's own end. The puppet is the unmodified mock, in the real child process.
import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { types } from 'wechaty-puppet';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import {
  ADA,
  BOT,
  QR,
  ROOM,
  SECRET,
  startWechatPlatform,
  type WechatPlatform,
} from '../fakes/wechat-platform.ts';

const PATIENCE = { timeout: 40_000, interval: 50 };

async function status(
  server: ServerProcess,
  name = 'friends',
): Promise<{ state: string; detail?: string; qr?: string }> {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const answer = await fetch(`${server.url}/api/channels`, { headers });
  const { items } = (await answer.json()) as { items: { account: string; state: string }[] };
  return items.find(({ account }) => account === name)!;
}

const reaches = (server: ServerProcess, wanted: object, name?: string) =>
  vi.waitFor(async () => expect(await status(server, name)).toMatchObject(wanted), PATIENCE);

async function sent(platform: WechatPlatform, texts: string[]): Promise<void> {
  await vi.waitFor(() => expect(platform.sent.map(({ text }) => text)).toEqual(texts), PATIENCE);
}

/** The server has heard that what was sent has arrived: if its child ended before, the next one would send it again. */
async function heard(server: ServerProcess): Promise<void> {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  await vi.waitFor(async () => {
    const answer = await fetch(`${server.url}/api/deliveries?state=pending`, { headers });
    expect(await answer.json()).toEqual({ items: [] });
  }, PATIENCE);
}

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`) && !isZombie(pid);

/** Nobody has asked for how it ended, but it has. */
function isZombie(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}

const configOf = (openaiUrl: string, platform: WechatPlatform, more: object = {}, others: object = {}) =>
  withModel(openaiUrl, {
    agent: { retry: { attempts: 0 } },
    workers: { lock_seconds: 2, sweep_seconds: 1 },
    // As many attempts as a few seconds hold: what waits for a login must not use them up.
    delivery: { base_ms: 20, max_ms: 40, max_attempts: 2, timeout_ms: 10_000 },
    channels: { friends: { ...platform.settings, ...more }, ...others },
  });

describe('one server', () => {
  let platform: WechatPlatform;
  let model: Awaited<ReturnType<typeof startModelServer>>;
  let server: ServerProcess;
  beforeAll(async () => {
    platform = await startWechatPlatform();
    model = await startModelServer();
    const absent = { type: 'wechat', puppet: 'wechaty-puppet-wechat4u' };
    server = await startServer({ config: configOf(model.openaiUrl, platform, { memory: '' }, { absent }) });
    await platform.up();
  }, 60_000);
  afterAll(async () => {
    await server.close();
    await model.close();
    await platform.close();
  });

  test('a code waits to be scanned, in the API and in the terminal; scanned; logged in, with a heartbeat', async () => {
    platform.scan();
    await reaches(server, { state: 'waiting_for_login', qr: QR });
    await server.line(/scan this code with WeChat/);
    platform.scan(QR, types.ScanStatus.Scanned);
    await reaches(server, {
      state: 'waiting_for_login',
      detail: expect.stringContaining('confirm') as string,
    });
    expect((await status(server)).qr).toBeUndefined();
    platform.login();
    await reaches(server, { state: 'connected', detail: 'logged in as Lane' });
    platform.happen({ do: 'heartbeat' });
    await reaches(server, {
      state: 'connected',
      // Told to the second; a busy machine may take some to look.
      detail: expect.stringMatching(/last sign of life \d s ago/) as string,
    });
  });

  test('a direct message is answered; in a room only who mentions us, with a mention; a redelivery changes nothing', async () => {
    platform.say({ id: 'd1', from: ADA.id, text: 'hello' });
    await sent(platform, ['echo: hello']);
    platform.say({ id: 'r0', from: ADA.id, room: ROOM.id, text: 'just chatting' });
    const asked = {
      id: 'r1',
      from: ADA.id,
      room: ROOM.id,
      mentions: [BOT.id],
      text: '@Lane\u2005what is tea?',
    };
    platform.say(asked);
    platform.say(asked);
    await sent(platform, ['echo: hello', '@Ada echo: Ada: what is tea?']);
    expect(platform.sent[1]).toMatchObject({ to: ROOM.id, mentions: [ADA.id] });
    await heard(server);
    platform.sent.length = 0;
  });

  test('logged out: the answer waits, however long, and goes out after the next login', async () => {
    const { promise: hold, resolve } = Promise.withResolvers<void>();
    model.enqueue({ text: 'worth waiting for', hold });
    const asked = model.requests.length;
    platform.say({ id: 'd2', from: ADA.id, text: 'are you there?' });
    await model.request(asked);
    platform.logout();
    await reaches(server, {
      state: 'waiting_for_login',
      detail: expect.stringContaining('kicked out') as string,
    });
    resolve();
    // More often than max_attempts.
    await vi.waitFor(() => {
      expect(server.lines.filter((line) => line.includes('delivery waits')).length).toBeGreaterThan(2);
    }, PATIENCE);
    expect(platform.sent).toEqual([]);
    platform.login();
    await sent(platform, ['worth waiting for']);
    await heard(server);
    platform.sent.length = 0;
  });

  test('the child is killed while its message is worked on: the server goes on, and answers once after the next login', async () => {
    const { promise: hold, resolve } = Promise.withResolvers<void>();
    model.enqueue({ text: 'the answer', hold });
    const asked = model.requests.length;
    platform.say({ id: 'd3', from: ADA.id, text: 'a long question' });
    await model.request(asked);
    process.kill(platform.pids.at(-1)!, 'SIGKILL');
    await reaches(server, { state: 'disconnected', detail: expect.stringContaining('SIGKILL') as string });
    resolve();
    await platform.up(2);
    platform.login();
    // Delivered once more by the platform, to the new child.
    platform.say({ id: 'd3', from: ADA.id, text: 'a long question' });
    await sent(platform, ['the answer']);
    platform.say({ id: 'd4', from: ADA.id, text: 'thanks' });
    await sent(platform, ['the answer', 'echo: thanks']);
    await heard(server);
    platform.sent.length = 0;
  });

  test.each(['throw', 'exit'] as const)('a puppet that does %s ends its own process only', async (how) => {
    const children = platform.pids.length;
    platform.happen({ do: how });
    await platform.up(children + 1);
    platform.login();
    platform.say({ id: `after-${how}`, from: ADA.id, text: how });
    await sent(platform, [`echo: ${how}`]);
    await heard(server);
    platform.sent.length = 0;
    expect(server.child.exitCode).toBeNull();
  });

  test('the puppet’s secrets are in no line of the log', () => {
    expect(platform.ups[0]?.secret).toBe(SECRET);
    expect(server.lines.some((line) => line.includes('the puppet prints'))).toBe(true);
    expect(server.lines.filter((line) => line.includes(SECRET))).toEqual([]);
  });

  test('a puppet that isn’t installed is named while another account works', async () => {
    await reaches(server, { state: 'connected' });
    const detail = expect.stringContaining('the puppet wechaty-puppet-wechat4u is not installed') as string;
    await reaches(server, { state: 'failed', detail }, 'absent');
  });

  test('SIGTERM ends all; the kept login is its owner’s only', async () => {
    platform.happen({ do: 'remember' });
    await platform.until(() => platform.remembered() > 0);
    expect(await server.kill('SIGTERM')).toBe(0);
    expect(platform.pids.filter(isAlive)).toEqual([]);
    const card = join(server.dataDir, 'wechat-friends.memory-card.json');
    expect(await readFile(card, 'utf8')).toContain('a login');
    expect((await stat(card)).mode & 0o077).toBe(0);
  });
});

const { track } = useCleanups();

test(
  'two gateways: one has the login; when it is killed, its child ends by itself, with what the puppet has started, and the other gateway takes over and sends what waits',
  { timeout: 120_000 },
  async () => {
    const redis = track(await startRedis());
    const platform = track(await startWechatPlatform());
    const model = track(await startModelServer());
    const config = { ...configOf(model.openaiUrl, platform), workers: { lock_seconds: 5, sweep_seconds: 1 } };
    const start = async () => track(await startServer({ config, redisUrl: redis.url }));
    const first = await start();
    await platform.up();
    platform.login();
    await reaches(first, { state: 'connected' });
    const second = await start();
    await reaches(second, { state: 'disconnected', detail: 'another process of this server has the login' });
    platform.say({ id: 'd1', from: ADA.id, text: 'hello' });
    await sent(platform, ['echo: hello']);
    await heard(first);
    const { promise: hold, resolve } = Promise.withResolvers<void>();
    model.enqueue({ text: 'and now: nothing', hold });
    const asked = model.requests.length;
    platform.say({ id: 'd2', from: ADA.id, text: 'and now?' });
    await model.request(asked);
    platform.happen({ do: 'spawn' });
    await platform.until(() => platform.spawned.length > 0);
    const family = [platform.pids.at(-1)!, ...platform.spawned];
    expect(family.every(isAlive)).toBe(true);
    await first.kill('SIGKILL');
    await vi.waitFor(() => expect(family.filter(isAlive)).toEqual([]), PATIENCE);
    // Either process may have been at work on it.
    resolve();
    await platform.up(2);
    expect(platform.pids).toHaveLength(2);
    platform.login();
    await reaches(second, { state: 'connected' });
    await vi.waitFor(() => expect(platform.sent).toHaveLength(2), PATIENCE);
    expect(platform.sent[1]?.text).toMatch(/^(?:and now: nothing|echo: and now\?)$/);
  },
);
