// The weixin channel against a strict fake of iLink, on a real storage: logging in, messages and files both ways, and what
// happens when the platform is unwilling.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createWeixinChannel } from '../../channels/weixin/index.ts';
import { configSchema, type WeixinSettings } from '../../config/schema.ts';
import { createChannelMemory } from '../../src/delivery/memory.ts';
import type { Delivery } from '../../src/domain/delivery.ts';
import { AppError } from '../../src/domain/errors.ts';
import { createMediaStore } from '../../src/media/index.ts';
import type { Accepted, ChannelMessage, LiveRun } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { systemClock } from '../../src/system-clock.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startIlinkServer, type IlinkOptions, type IlinkServer } from '../fakes/ilink-server.ts';
import { recordingLog } from '../fakes/log.ts';

const { later } = useCleanups();
const never = new AbortController().signal;
const BOT = 'bot-1';
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

/** What every test holds at its end: the protocol was kept, and no secret was told. */
const held: { server: IlinkServer; told: () => string }[] = [];
afterEach(() => {
  for (const { server, told } of held.splice(0)) {
    expect(server.violations).toEqual([]);
    expect(told()).not.toContain('secret-token');
  }
});

interface Options extends IlinkOptions {
  settings?: Record<string, unknown>;
  marginMs?: number;
}

async function setUp({ settings: more = {}, marginMs, ...ilink }: Options = {}) {
  const server = await startIlinkServer(ilink);
  later(() => server.close());
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-weixin-'));
  later(() => rm(folder, { recursive: true, force: true }));
  const { log, lines } = recordingLog();
  const storage = await createSqliteStorage({
    file: join(folder, 'test.db'),
    dedupeHours: 48,
    historyTtlDays: 0,
    log,
  });
  later(() => storage.close());
  const { channels } = configSchema.parse({
    channels: { me: { type: 'weixin', base_url: server.url, ...more } },
  });
  const media = createMediaStore({
    folder: join(folder, 'media'),
    maxBytes: 100_000,
    types: ['*'],
    denyTypes: [],
    now: Date.now,
  });
  const waits: number[] = [];
  /** Waits take no time but a turn; how long they were to be is kept. */
  const clock: Clock = {
    now: () => Date.now(),
    sleep: (ms, signal) => (waits.push(ms), systemClock.sleep(ms >= 1_000 ? 2 : ms, signal)),
  };
  const accepted: ChannelMessage[] = [];
  const printed: string[] = [];
  const states: unknown[] = [];
  let answer = async (message: ChannelMessage): Promise<Accepted> => ({
    status: accepted.some(({ id }) => id === message.id) ? 'duplicate' : 'queued',
    id: message.id,
    conversation: `me:${message.chat}`,
  });
  const make = () => {
    const channel = createWeixinChannel({
      account: 'me',
      settings: channels['me'] as WeixinSettings,
      async accept(_account, message) {
        const result = await answer(message);
        if (result.status !== 'duplicate') accepted.push(message);
        return result;
      },
      memory: createChannelMemory(storage.index, 'me'),
      state: storage.channelState('me'),
      media,
      leaseMs: 900,
      print: (text) => void printed.push(text),
      clock,
      log,
      ...(marginMs === undefined ? {} : { marginMs }),
    });
    later(() => channel.stop());
    return channel;
  };
  const channel = make();
  held.push({
    server,
    told: () => JSON.stringify([lines, states, channel.status(), printed, waits]),
  });
  const state = (name: string) =>
    vi.waitFor(() => {
      states.push(channel.status());
      expect(channel.status().state).toBe(name);
    });
  return {
    server,
    channel,
    make,
    storage,
    media,
    accepted,
    printed,
    waits,
    lines,
    state,
    answerWith: (next: typeof answer) => (answer = next),
    async connect() {
      await channel.start();
      await (await server.qr()).confirm(BOT);
      await state('connected');
    },
  };
}

/** Between tries; 3 s are how long a poll has to be held to be a good sign. */
const pauses = (waits: number[]) => waits.filter((ms) => ms >= 2_000 && ms !== 3_000);

function delivery(text: string, more: Partial<Delivery> = {}): Delivery {
  return {
    id: 'run-1.0',
    conversation: 'me:user-ada',
    account: 'me',
    run: 'run-1',
    messages: ['m1'],
    address: { user: 'user-ada' },
    status: 'done',
    reply: { text },
    at: 0,
    ...more,
  };
}

describe('logging in', () => {
  test('a QR code is shown, scanned and confirmed; it is told in the terminal and by the status', async () => {
    const { channel, printed, server, state } = await setUp();
    await channel.start();
    const qr = await server.qr();
    await vi.waitFor(() =>
      expect(channel.status()).toEqual({
        state: 'waiting_for_login',
        detail: 'scan the QR code with WeChat (terminal or /console)',
        qr: qr.content,
      }),
    );
    expect(printed).toHaveLength(1);
    qr.become('scaned');
    await vi.waitFor(() => expect(channel.status().detail).toContain('confirm it on the phone'));
    await qr.confirm(BOT);
    await state('connected');
    expect(channel.status().qr).toBeUndefined();
    expect(channel.botIds?.()).toEqual([BOT]);
  });

  test('an expired code is replaced', async () => {
    const { channel, server, state } = await setUp();
    await channel.start();
    (await server.qr()).become('expired');
    const next = await server.qr(1);
    await vi.waitFor(() => expect(channel.status().qr).toBe(next.content));
    expect(channel.status().detail).toContain('expired');
    await next.confirm(BOT);
    await state('connected');
  });

  test('a redirect is followed to the host that it names', async () => {
    const { channel, server, state } = await setUp();
    const other = await startIlinkServer();
    later(() => other.close());
    await channel.start();
    const qr = await server.qr();
    // The same code is known there.
    const there = other.qrHere();
    expect(there.id).toBe(qr.id);
    qr.become('scaned_but_redirect', { redirect_host: new URL(other.url).host });
    await there.confirm('bot-there');
    await state('connected');
    await vi.waitFor(() => expect(other.polls('bot-there')).toBe(1));
    expect(server.calls.some(({ path }) => path === 'getupdates')).toBe(false);
  });

  test('the code that the phone shows is asked for, again if it was wrong', async () => {
    const { channel, server, state } = await setUp();
    await channel.start();
    await expect(channel.enterCode?.('1')).rejects.toMatchObject({ code: 'conflict' });
    const qr = await server.qr();
    qr.become('need_verifycode', { code: '4711' });
    await vi.waitFor(() => expect(channel.status().asks).toBe('code'));
    await channel.enterCode?.('0000');
    await vi.waitFor(() => expect(channel.status().detail).toContain('not the code'));
    await channel.enterCode?.('4711');
    await vi.waitFor(() => expect(qr.codes).toEqual(['0000', '4711']));
    await vi.waitFor(() => expect(channel.status().asks).toBeUndefined());
    await qr.confirm(BOT);
    await state('connected');
  });

  test.each([
    ['verify_code_blocked', 'too many wrong codes'],
    ['binded_redirect', 'bound to another bot'],
  ] as const)('%s: a new code after a while, with the reason', async (status, reason) => {
    const { channel, server, waits } = await setUp();
    await channel.start();
    (await server.qr()).become(status);
    await server.qr(1);
    await vi.waitFor(() => expect(channel.status().detail).toContain(reason));
    expect(waits).toContain(30_000);
  });

  test('a platform that is away is tried again, later and later', async () => {
    const { channel, server, state, waits } = await setUp();
    server.fail('get_bot_qrcode', { status: 502, body: '<html>', times: 4 });
    await channel.start();
    await (await server.qr()).confirm(BOT);
    await state('connected');
    expect(pauses(waits)).toEqual([2_000, 2_000, 30_000, 30_000]);
  });

  test('an address that is less protected is refused', async () => {
    const { createApi } = await import('../../channels/weixin/client/api.ts');
    const api = createApi({ baseUrl: 'https://127.0.0.1:1', cdnUrl: 'https://127.0.0.1:1' });
    const file = { url: 'http://127.0.0.1:1/x', key: Buffer.alloc(16) };
    await expect(api.download(file, 10, never)).rejects.toMatchObject({ kind: 'refused' });
  });
});

describe('messages in', () => {
  test('come with their sender, and their uint64 id unharmed', async () => {
    const { accepted, connect, server } = await setUp();
    await connect();
    server.say(BOT, { text: 'hello', id: '18446744073709551557' });
    await server.taken(BOT);
    expect(accepted).toMatchObject([
      { id: '18446744073709551557', chat: 'user-ada', sender: { id: 'user-ada' }, text: 'hello' },
    ]);
  });

  test('the cursor moves when they are durable, not before', async () => {
    const { accepted, answerWith, connect, server, storage, waits } = await setUp();
    await connect();
    let failures = 0;
    answerWith(async (message) => {
      if (message.text === 'two' && failures++ < 4)
        throw new AppError('storage_unavailable', 'The storage is away.');
      return { status: 'queued', id: message.id, conversation: 'c' };
    });
    await vi.waitFor(() => expect(server.polls(BOT)).toBe(1));
    server.say(BOT, { text: 'one' });
    server.say(BOT, { text: 'two' });
    server.say(BOT, { text: 'three' });
    await server.taken(BOT);
    // What came before is given again as well; accept() knows it.
    expect(accepted.map(({ text }) => text).filter((text) => text !== 'one')).toEqual(['two', 'three']);
    expect(pauses(waits)).toEqual([2_000, 2_000, 30_000, 30_000]);
    await vi.waitFor(async () =>
      expect(await storage.channelState('me').get('cursor')).toBe(server.cursors.at(-1)),
    );
  });

  test('a conversation that is full holds up nobody else', async () => {
    const { accepted, answerWith, connect, server } = await setUp();
    await connect();
    answerWith(async (message) => {
      if (message.chat === 'user-ada') throw new AppError('conversation_full', 'Too many.');
      return { status: 'queued', id: message.id, conversation: 'c' };
    });
    server.say(BOT, { text: 'hello' });
    server.say(BOT, { text: 'hi', from: 'user-bob' });
    await server.taken(BOT);
    expect(accepted.map(({ text }) => text)).toEqual(['hi']);
    await vi.waitFor(() => expect(server.seen('user-ada')[0]).toContain("couldn't be saved"));
  });

  test('an old one, the bot’s own and a broken one are passed over', async () => {
    const { accepted, connect, server } = await setUp({ settings: { max_age_minutes: 60 } });
    await connect();
    server.say(BOT, { text: 'long ago', at: Date.now() - 61 * 60_000 });
    server.say(BOT, { text: 'mine', more: { message_type: 2 } });
    server.say(BOT, { text: 'broken', more: { from_user_id: { a: 1 } } });
    server.say(BOT, { text: 'new' });
    await server.taken(BOT);
    expect(accepted.map(({ text }) => text)).toEqual(['new']);
  });

  test('a command is answered, once for each message', async () => {
    const { answerWith, connect, server } = await setUp();
    await connect();
    answerWith(async () => ({ status: 'command', conversation: 'c', reply: '**help**' }));
    server.fail('sendmessage', { status: 500 });
    server.say(BOT, { text: '/help', id: '77' });
    server.say(BOT, { text: '/help', id: '77' });
    await server.taken(BOT);
    await vi.waitFor(() => expect(server.seen('user-ada')).toEqual(['help']));
  });

  test.each([{ wholeUrls: false }, { wholeUrls: true }])('files, %j', async (how) => {
    const { accepted, connect, media, server } = await setUp(how);
    await connect();
    const items = [
      { type: 2, image_item: { media: server.put(PNG, 'raw') } },
      { type: 3, voice_item: { media: server.put(Buffer.from('sound'), 'hex'), text: 'good morning' } },
      { type: 4, file_item: { media: server.put(Buffer.from('words'), 'hex'), file_name: 'a.txt' } },
      { type: 5, video_item: { media: server.put(Buffer.from('film'), 'raw') } },
      { type: 2, image_item: { media: server.put(PNG, 'none') } },
      { type: 4, file_item: { media: server.put(Buffer.alloc(100_001), 'hex'), file_name: 'large.bin' } },
      { type: 4, file_item: { media: { encrypt_query_param: 'gone', aes_key: '' }, file_name: 'gone.txt' } },
    ];
    server.say(BOT, { items });
    await server.taken(BOT);
    const [message] = accepted;
    expect(message?.text).toBe(
      'good morning\n\n(a file of type file, large.bin, that could not be fetched)\n\n(a file of type file, gone.txt, that could not be fetched)',
    );
    expect(message?.attachments?.map(({ type, media_type, name }) => [type, media_type, name])).toEqual([
      ['image', 'image/png', undefined],
      ['audio', 'audio/silk', undefined],
      ['file', 'text/plain', 'a.txt'],
      ['video', 'video/mp4', undefined],
      ['image', 'image/png', undefined],
    ]);
    const kept = await Promise.all((message?.attachments ?? []).map(({ ref }) => media.get(ref)));
    expect(kept.map((file) => file?.bytes.toString())).toEqual([
      PNG.toString(),
      'sound',
      'words',
      'film',
      PNG.toString(),
    ]);
  });

  test('a poll that takes too long brings nothing and is no failure', async () => {
    const { accepted, channel, connect, lines, server } = await setUp({ holdMs: 400, marginMs: -380 });
    await connect();
    await vi.waitFor(() => expect(server.cursors.length).toBeGreaterThan(3));
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([]);
    expect(channel.status().state).toBe('connected');
    server.say(BOT, { text: 'hello' });
    await vi.waitFor(() => expect(accepted).toHaveLength(1));
  });
});

describe('when the platform is unwilling', () => {
  test.each(['ret', 'errcode'] as const)(
    '%s -14: a new QR code at once, no poll until it is used',
    async (how) => {
      const { accepted, channel, connect, server, state, storage } = await setUp();
      await connect();
      await vi.waitFor(() => expect(server.polls(BOT)).toBe(1));
      server.say(BOT, { text: 'before' });
      await server.taken(BOT);
      server.kill(BOT, how);
      const qr = await server.qr(1);
      await state('waiting_for_login');
      expect(channel.status()).toMatchObject({
        qr: qr.content,
        detail: expect.stringContaining('ended the login'),
      });
      const polls = server.cursors.length;
      // The person writes on; a delivery waits.
      server.say(BOT, { text: 'meanwhile' });
      expect(await channel.deliver(delivery('answer'), never)).toMatchObject({ status: 'wait' });
      expect(server.cursors).toHaveLength(polls);
      expect(await storage.channelState('me').get('login')).toBeUndefined();
      await qr.confirm(BOT);
      await server.taken(BOT);
      expect(accepted.map(({ text }) => text)).toEqual(['before', 'meanwhile']);
      expect(await channel.deliver(delivery('answer'), never)).toEqual({ status: 'sent' });
    },
  );

  test('-14 to a message: the same', async () => {
    const { channel, connect, server, state } = await setUp();
    await connect();
    server.fail('sendmessage', { ret: -14 });
    expect(await channel.deliver(delivery('answer'), never)).toMatchObject({ status: 'wait' });
    await server.qr(1);
    await state('waiting_for_login');
  });

  test('-2 to polls: slower and slower, and no login is lost', async () => {
    const { accepted, connect, server, state, waits } = await setUp();
    await connect();
    server.fail('getupdates', { ret: -2, times: 3 });
    server.say(BOT, { text: 'hello' });
    await server.taken(BOT);
    expect(accepted).toHaveLength(1);
    expect(pauses(waits)).toEqual([10_000, 20_000, 40_000]);
    await state('connected');
  });

  test('-2 to messages: all of them wait', async () => {
    const { channel, connect, server } = await setUp();
    await connect();
    server.say(BOT, { text: 'hello' });
    await server.taken(BOT);
    server.fail('sendmessage', { errcode: -2 });
    expect(await channel.deliver(delivery('one'), never)).toMatchObject({ status: 'retry', afterMs: 3_000 });
    const calls = server.calls.length;
    expect(await channel.deliver(delivery('two', { id: 'run-2.0' }), never)).toMatchObject({
      status: 'wait',
    });
    expect(server.calls.filter(({ path }) => path === 'sendmessage')).toHaveLength(1);
    expect(server.calls.length).toBeLessThanOrEqual(calls + 1);
  });
});

describe('messages out', () => {
  test('plain text, with the newest context token', async () => {
    const { channel, connect, server } = await setUp();
    await connect();
    server.say(BOT, { text: 'one' });
    server.say(BOT, { text: 'two' });
    await server.taken(BOT);
    expect(await channel.deliver(delivery('**Hello** [you](https://example.org)'), never)).toEqual({
      status: 'sent',
    });
    expect(server.seen('user-ada')).toEqual(['Hello you (https://example.org)']);
    // The fake refuses any other context token.
    expect(server.sends[0]?.context).toMatch(/^context-/);
  });

  test('success without an id is none: it is tried again, as a new message', async () => {
    const { channel, connect, server } = await setUp();
    await connect();
    server.say(BOT, { text: 'hello' });
    await server.taken(BOT);
    server.fail('sendmessage', { withoutId: true });
    expect(await channel.deliver(delivery('answer'), never)).toMatchObject({ status: 'retry' });
    expect(await channel.deliver(delivery('answer'), never)).toEqual({ status: 'sent' });
    const ids = server.calls.flatMap(({ body, path }) =>
      path === 'sendmessage' ? [(body['msg'] as { client_id: string }).client_id] : [],
    );
    expect(new Set(ids).size).toBe(2);
    expect(server.seen('user-ada')).toEqual(['answer']);
  });

  test('an answer whose fate is unknown keeps its client_id, also in another process', async () => {
    const { channel, connect, make, server } = await setUp();
    await connect();
    server.say(BOT, { text: 'hello' });
    await server.taken(BOT);
    server.fail('sendmessage', { lost: true });
    expect(await channel.deliver(delivery('answer'), never)).toMatchObject({ status: 'retry' });
    expect(await make().deliver(delivery('answer'), never)).toEqual({ status: 'sent' });
    expect(server.sends).toHaveLength(2);
    expect(server.seen('user-ada')).toEqual(['answer']);
  });

  test('of a long answer, only what is missing is sent again, also by another process', async () => {
    const { channel, connect, make, server } = await setUp();
    await connect();
    server.say(BOT, { text: 'hello' });
    await server.taken(BOT);
    const long = delivery(['a', 'b', 'c'].map((letter) => letter.repeat(3_000)).join('\n\n'));
    server.fail('sendmessage', { status: 500, after: 1 });
    expect(await channel.deliver(long, never)).toMatchObject({ status: 'retry' });
    expect(server.seen('user-ada').map((text) => text[0])).toEqual(['a']);
    expect(await make().deliver(long, never)).toEqual({ status: 'sent' });
    expect(server.seen('user-ada').map((text) => text[0])).toEqual(['a', 'b', 'c']);
    expect(server.sends).toHaveLength(3);
  });

  test.each([
    { uploadMethod: 'POST', wholeUrls: true },
    { uploadMethod: 'PUT', wholeUrls: false },
  ] as const)('files, %j', async (how) => {
    const { channel, connect, media, server } = await setUp(how);
    await connect();
    server.say(BOT, { text: 'hello' });
    await server.taken(BOT);
    const image = await media.put({ bytes: PNG, name: 'a.png' });
    const text = await media.put({ bytes: Buffer.from('words'), name: 'a.txt' });
    const film = await media.put({ bytes: Buffer.from('film'), name: 'a.mp4', media_type: 'video/mp4' });
    const attachments = [
      { type: 'image' as const, ...image },
      { type: 'file' as const, ...text },
      { type: 'video' as const, ...film },
      { type: 'file' as const, ref: `media:${'0'.repeat(64)}.pdf`, name: 'old.pdf' },
      { type: 'file' as const, ref: 'https://example.org/x', name: 'x' },
    ];
    const result = await channel.deliver(delivery('see', { reply: { text: 'see', attachments } }), never);
    expect(result).toEqual({ status: 'sent' });
    expect(server.seen('user-ada')).toEqual([
      'see',
      '(2 )',
      '(4 a.txt)',
      '(5 )',
      expect.stringContaining('old.pdf'),
      'x: https://example.org/x',
    ]);
    expect(server.sends.flatMap(({ file }) => (file ? [file.bytes.toString()] : []))).toEqual([
      PNG.toString(),
      'words',
      'film',
    ]);
  });
});

describe('typing', () => {
  const run: LiveRun = {
    id: 'run-1',
    conversation: 'me:user-ada',
    delivery: 'run-1.0',
    messages: ['m1'],
    address: { user: 'user-ada' },
  };

  test('is said again until the run has ended; its ticket is kept', async () => {
    const { channel, connect, make, server, waits } = await setUp();
    await connect();
    const { live } = channel;
    await live?.started(run);
    await vi.waitFor(() => expect(server.typing.length).toBeGreaterThan(2));
    await live?.ended(run);
    expect(server.typing.map(({ status }) => status)).toEqual([
      ...Array.from({ length: server.typing.length - 1 }, () => 1),
      2,
    ]);
    expect(waits).toContain(5_000);
    const next = make();
    await next.live?.started({ ...run, id: 'run-2' });
    const before = server.typing.length;
    await vi.waitFor(() => expect(server.typing.length).toBeGreaterThan(before));
    await next.live?.ended({ ...run, id: 'run-2' });
    expect(server.calls.filter(({ path }) => path === 'getconfig')).toHaveLength(1);
  });

  test('a ticket that is refused is asked for anew the next time', async () => {
    const { channel, connect, server } = await setUp();
    await connect();
    server.fail('sendtyping', { ret: -1 });
    await channel.live?.started(run);
    await vi.waitFor(() => expect(server.calls.some(({ path }) => path === 'sendtyping')).toBe(true));
    await channel.live?.ended(run);
    await channel.live?.started({ ...run, id: 'run-2' });
    await vi.waitFor(() => expect(server.typing.length).toBeGreaterThan(0));
    expect(server.calls.filter(({ path }) => path === 'getconfig')).toHaveLength(2);
  });
});

describe('processes', () => {
  test('another one waits, shows what the first one tells, and goes on with its login and cursor', async () => {
    const { accepted, channel, connect, make, server } = await setUp();
    const second = make();
    await channel.start();
    const qr = await server.qr();
    await second.start();
    await vi.waitFor(() =>
      expect(second.status()).toMatchObject({ state: 'waiting_for_login', qr: qr.content }),
    );
    await qr.confirm(BOT);
    await vi.waitFor(() => expect(second.status().state).toBe('connected'));
    server.say(BOT, { text: 'one' });
    await server.taken(BOT);
    expect(server.polls(BOT)).toBe(1);
    expect(await second.deliver(delivery('from the other'), never)).toEqual({ status: 'sent' });
    await channel.stop();
    server.say(BOT, { text: 'two' });
    await server.taken(BOT);
    expect(accepted.map(({ text }) => text)).toEqual(['one', 'two']);
    expect(server.qrs).toHaveLength(1);
    void connect;
  });

  test('the code of the phone may be entered at either', async () => {
    const { channel, make, server } = await setUp();
    const second = make();
    await channel.start();
    const qr = await server.qr();
    await second.start();
    qr.become('need_verifycode', { code: '4711' });
    await vi.waitFor(() => expect(second.status().asks).toBe('code'));
    await second.enterCode?.('4711');
    await vi.waitFor(() => expect(qr.codes).toEqual(['4711']));
  });
});

describe('what the doctor is told', () => {
  test('nobody logged in, somebody, a dead login, no platform', async () => {
    const { channel, connect, make, server } = await setUp();
    const check = async () => (await make().check?.())?.map(({ state, text }) => `${state}: ${text}`);
    expect(await check()).toEqual([
      'note: nobody is logged in: start the server and scan the QR code (terminal, /console)',
    ]);
    await connect();
    expect(await check()).toEqual([`ok: logged in as ${BOT}`]);
    await channel.stop();
    server.kill(BOT);
    expect(await check()).toEqual([expect.stringContaining('wrong: the login is over')]);
    await server.close();
    expect(await check()).toEqual([expect.stringContaining('does not answer: check base_url')]);
  });
});
