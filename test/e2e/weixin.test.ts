// WeChat through iLink on the whole server: from a QR code that the API shows to an answer, with kill -9 between append and
// cursor, a restart, a dead login, two accounts, files both ways, and another gateway that takes over.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startIlinkServer, type FakeQr, type IlinkServer } from '../fakes/ilink-server.ts';
import type { ModelServer } from '../fakes/model-server.ts';
import { ADMIN_TOKEN, type ServerProcess } from '../fakes/server.ts';
import { startSystem, type System } from '../fakes/system.ts';

const PATIENCE = { timeout: 20_000 };
const BOT = 'bot-me';
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

async function statusOf(server: ServerProcess, account: string) {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const response = await fetch(`${server.url}/api/channels`, { headers });
  const text = await response.text();
  expect(text).not.toContain('secret-token');
  const { items } = JSON.parse(text) as { items: { account: string; state: string; qr?: string }[] };
  return items.find((item) => item.account === account);
}

const state = (server: ServerProcess, name: string, account = 'me') =>
  vi.waitFor(async () => expect((await statusOf(server, account))?.state).toBe(name), PATIENCE);

/** As a person does it: the QR code that the API shows is scanned. */
async function logIn(server: ServerProcess, ilink: IlinkServer, account = 'me'): Promise<FakeQr> {
  const qr = await vi.waitFor(async () => {
    const shown = (await statusOf(server, account))?.qr;
    const found = ilink.qrs.find(({ content }) => content === shown);
    expect(found).toBeDefined();
    return found!;
  }, PATIENCE);
  qr.become('scaned');
  await qr.confirm(`bot-${account}`);
  await state(server, 'connected', account);
  return qr;
}

let people = 0;

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  const shared = useCleanups(afterAll);
  let ilink: IlinkServer;
  let system: System;
  let server: ServerProcess;
  let model: ModelServer;
  /** Every test has a person of its own. */
  let ada: string;
  beforeAll(async () => {
    ilink = shared.track(await startIlinkServer());
    const account = { type: 'weixin', base_url: ilink.url };
    system = await startSystem(shared, {
      backend,
      config: {
        delivery: { base_ms: 20, max_ms: 40, max_attempts: 5 },
        channels: { me: account, work: account },
      },
    });
    server = await system.server();
    await logIn(server, ilink);
    await logIn(server, ilink, 'work');
  });
  beforeEach(async () => {
    server = await system.server();
    await state(server, 'connected');
    model = system.model.renewed();
    ada = `user-ada-${(people += 1)}`;
  });
  // What every test holds at its end: the protocol was kept, and no token is in any log.
  afterEach(() => {
    expect(ilink.violations).toEqual([]);
    expect(system.servers.flatMap(({ lines }) => lines).join('\n')).not.toContain('secret-token');
  });

  const say = (text: string) => ilink.say(BOT, { from: ada, text });
  const sends = () => ilink.sends.filter(({ to }) => to === ada);
  const seen = (expected: unknown[], user = ada) =>
    vi.waitFor(() => expect(ilink.seen(user)).toEqual(expected), PATIENCE);

  test('from the QR code to an answer; a restart goes on with login, cursor and context token', async () => {
    expect(system.servers[0]!.lines.join('\n')).toMatch(/█[\s\S]*channel me: scan this code with WeChat/);
    const typing = () => ilink.typing.filter(({ user }) => user === ada).map(({ status }) => status);
    const { promise: hold, resolve } = Promise.withResolvers<void>();
    model.enqueue({ text: 'well …', hold });
    say('hello');
    await vi.waitFor(() => expect(typing()).toEqual([1]), PATIENCE);
    resolve();
    await seen(['well …']);
    await vi.waitFor(() => expect(typing()).toEqual([1, 2]), PATIENCE);
    await ilink.taken(BOT);
    const cursor = ilink.cursorsOf(BOT).at(-1);
    const polls = ilink.cursorsOf(BOT).length;
    expect(await server.kill('SIGTERM')).toBe(0);
    const again = await system.server();
    await state(again, 'connected');
    await vi.waitFor(() => expect(ilink.cursorsOf(BOT).length).toBeGreaterThan(polls), PATIENCE);
    expect(ilink.cursorsOf(BOT).at(-1)).toBe(cursor);
    say('still there?');
    await seen(['well …', 'echo: still there?']);
    // One for each account.
    expect(ilink.qrs).toHaveLength(2);
    const asked = ilink.calls.filter(
      ({ path, body }) => path === 'getconfig' && body['ilink_user_id'] === ada,
    );
    expect(asked).toHaveLength(1);
  });

  test.each(['before_append', 'after_append'] as const)(
    'killed %s: the message comes again, and is answered once',
    async (faultPoint) => {
      const doomed = await system.killedAt(faultPoint);
      say('hello');
      await doomed.ended;
      const again = await system.server();
      await state(again, 'connected');
      await ilink.taken(BOT);
      await seen(['echo: hello']);
      // Another one, to have an end to wait for: had the redelivery been answered, it would be before this.
      say('thanks');
      await seen(['echo: hello', 'echo: thanks']);
      expect(sends()).toHaveLength(2);
      expect(model.requests).toHaveLength(2);
    },
  );

  if (backend === 'redis') {
    test('of two gateways one polls, and the other takes over when it is killed', async () => {
      const codes = ilink.qrs.length;
      const other = await system.start();
      await state(other, 'connected');
      say('one');
      await seen(['echo: one']);
      await ilink.taken(BOT);
      expect(ilink.polls(BOT)).toBeLessThanOrEqual(1);
      await server.kill('SIGKILL');
      say('two');
      await seen(['echo: one', 'echo: two']);
      expect(ilink.qrs).toHaveLength(codes);
    });
    return;
  }

  // Of what follows nothing differs by backend.

  test('killed between sending and settling: sent again under the same client_id', async () => {
    const doomed = await system.killedAt('before_settle');
    say('hello');
    await doomed.ended;
    await system.server();
    await vi.waitFor(() => expect(sends()).toHaveLength(2), PATIENCE);
    expect(new Set(sends().map(({ clientId }) => clientId)).size).toBe(1);
  });

  test('a login that ends while a run is at work: the answer goes out after the next one', async () => {
    const { promise: hold, resolve } = Promise.withResolvers<void>();
    model.enqueue({ text: 'at last', hold });
    say('take your time');
    await model.request(0);
    ilink.kill(BOT, 'errcode');
    await state(server, 'waiting_for_login');
    const printed = server.lines.length;
    resolve();
    await server.line(/delivery waits/, printed);
    const polls = ilink.cursorsOf(BOT).length;
    expect(sends()).toEqual([]);
    expect(ilink.cursorsOf(BOT)).toHaveLength(polls);
    await logIn(server, ilink);
    await seen(['at last']);
  });

  test('two accounts at once, each with its own people', async () => {
    const bob = `user-bob-${people}`;
    say('private');
    ilink.say('bot-work', { text: 'business', from: bob });
    await seen(['echo: private']);
    await seen(['echo: business'], bob);
    const theirs = ilink.sends.filter(({ to }) => to === ada || to === bob);
    expect(theirs.map(({ bot, to }) => `${bot} ${to}`).sort()).toEqual([`bot-me ${ada}`, `bot-work ${bob}`]);
  });

  test('a picture reaches the model as one', async () => {
    ilink.say(BOT, {
      from: ada,
      items: [
        { type: 2, image_item: { media: ilink.put(PNG, 'hex') } },
        { type: 1, text_item: { text: 'what is this?' } },
      ],
    });
    const { body } = await model.request(0);
    expect(JSON.stringify(body)).toContain(PNG.toString('base64'));
    await vi.waitFor(() => expect(sends()).toHaveLength(1), PATIENCE);
  });
});
