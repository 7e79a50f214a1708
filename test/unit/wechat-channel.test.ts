// The WeChat channel with its real child process and the unmodified mock puppet in it: what comes in, what goes out, and what
// becomes of both when things go wrong. One child for the whole file.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { types } from 'wechaty-puppet';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createWechatChannel } from '../../channels/wechat/index.ts';
import { configSchema, type WechatSettings } from '../../config/schema.ts';
import type { Delivery, Reply } from '../../src/domain/delivery.ts';
import type { Accepted, Channel, ChannelMessage, ChannelMemory } from '../../src/ports/channel.ts';
import { systemClock } from '../../src/system-clock.ts';
import { recordingLog } from '../fakes/log.ts';
import { createTestMedia, png, type TestMedia } from '../fakes/media.ts';
import {
  ADA,
  BOB,
  BOT,
  ROOM,
  SECRET,
  startWechatPlatform,
  WORLD,
  type WechatPlatform,
} from '../fakes/wechat-platform.ts';

const NEWS = { id: 'gh_news', name: 'News', type: types.Contact.Official };
const EVE = { id: 'eve-by-now', name: 'Eve', alias: 'our Eve' };

let platform: WechatPlatform;
let channel: Channel;
let media: TestMedia;
const undo: (() => Promise<unknown>)[] = [];
const { log, lines } = recordingLog();
const kept = new Map<string, string>();
const memory: ChannelMemory = {
  remember: async (key, value) => void (kept.has(key) || kept.set(key, value)),
  find: async (key) => kept.get(key),
};
const taken: ChannelMessage[] = [];
const cancelled: string[] = [];
let answer: (message: ChannelMessage) => Promise<Accepted>;
let arrived: PromiseWithResolvers<void> = Promise.withResolvers();

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-wechat-'));
  undo.push(() => rm(folder, { recursive: true, force: true }));
  platform = await startWechatPlatform({ ...WORLD, contacts: [...WORLD.contacts, NEWS, EVE] });
  media = await createTestMedia((step) => void undo.push(step), {
    maxBytes: 50_000,
    denyTypes: ['text/html'],
  });
  const settings = { ...platform.settings, unknown_outcome: 'park' };
  const { channels } = configSchema.parse({ channels: { acc: settings } });
  channel = createWechatChannel({
    account: 'acc',
    settings: channels['acc'] as WechatSettings,
    async accept(_account, message) {
      const accepted = await answer(message);
      taken.push(message);
      arrived.resolve();
      return accepted;
    },
    cancel: async (_conversation, message) => {
      cancelled.push(message);
      arrived.resolve();
      return true;
    },
    memory,
    state: {
      lease: async () => true,
      release: async () => {},
      get: async () => undefined,
      set: async () => {},
      delete: async () => {},
    },
    leaseMs: 60_000,
    media,
    dataDir: folder,
    print: () => undefined,
    clock: systemClock,
    log,
  });
  await channel.start();
  await platform.up();
  platform.login();
});

afterAll(async () => {
  await channel.stop();
  await platform.close();
  for (const step of undo) await step();
});

beforeEach(() => {
  answer = async ({ id }) => ({ status: 'queued', id, conversation: 'acc:chat' });
  taken.length = 0;
  platform.sent.length = 0;
});

let serial = 0;
const fresh = (what = 'm') => `${what}-${++serial}`;

/** What accept() gets of it. */
async function say(said: Omit<Parameters<WechatPlatform['say']>[0], 'id'>): Promise<ChannelMessage> {
  arrived = Promise.withResolvers();
  platform.say({ id: fresh(), ...said });
  await arrived.promise;
  return taken.at(-1)!;
}

function delivery(message: ChannelMessage, reply: Reply, id = fresh('run')): Delivery {
  const address = message.replyTo?.address ?? {};
  const from = { conversation: 'acc:chat', account: 'acc', run: id, messages: [message.id] };
  return { id: `${id}.0`, ...from, address, status: 'done', reply, at: Date.now() };
}

const never = new AbortController().signal;
const inRoom = { room: ROOM.id, mentions: [BOT.id] };

describe('what comes in', () => {
  test('a direct message, with who says it; an old one, a service account’s and our own are skipped', async () => {
    platform.say({ id: fresh(), from: ADA.id, text: 'long ago', at: Date.now() - 3_600_000 });
    platform.say({ id: fresh(), from: NEWS.id, text: 'read this' });
    platform.say({ id: fresh(), from: BOT.id, text: 'my own words' });
    platform.say({ id: fresh(), from: ADA.id, text: '  ' });
    const message = await say({ from: ADA.id, text: '你好 hello' });
    expect(taken).toHaveLength(1);
    expect(message).toMatchObject({
      chat: ADA.id,
      sender: ADA,
      text: '你好 hello',
      group: false,
      mentioned: true,
    });
    expect(channel.botIds?.()).toEqual([BOT.id]);
  });

  test('in a room: whether we are mentioned; our name is taken off, the others’ stay', async () => {
    expect(await say({ from: ADA.id, room: ROOM.id, text: 'just chatting' })).toMatchObject({
      chat: ROOM.id,
      group: true,
      mentioned: false,
      sender: ADA,
      text: 'just chatting',
    });
    const asked = await say({ from: BOB.id, ...inRoom, text: '@Lane\u2005what is tea?' });
    expect(asked).toMatchObject({ mentioned: true, text: 'what is tea?', sender: BOB });
    const both = { room: ROOM.id, mentions: [BOT.id, BOB.id] };
    expect((await say({ from: ADA.id, ...both, text: '@Lane\u2005ask @Bob\u2005please' })).text).toBe(
      'ask @Bob\u2005please',
    );
  });

  test('pictures and files are kept by reference; one that is refused is named', async () => {
    const picture = { name: 'tea.png', bytes: png() };
    const message = await say({ from: ADA.id, type: types.Message.Image, file: picture });
    expect(message.attachments).toMatchObject([{ type: 'image', media_type: 'image/png', name: 'tea.png' }]);
    expect((await media.get(message.attachments?.[0]?.ref ?? ''))?.bytes).toEqual(png());
    const file = { name: 'notes.txt', bytes: Buffer.from('some words') };
    expect((await say({ from: ADA.id, file })).attachments).toMatchObject([{ type: 'file', size: 10 }]);
    const large = await say({ from: ADA.id, file: { name: 'large.bin', bytes: Buffer.alloc(50_001) } });
    expect(large.attachments).toBeUndefined();
    expect(large.text).toMatch(/could not be fetched/);
    const page = await say({ from: ADA.id, file: { name: 'page.html', bytes: Buffer.from('<html>') } });
    expect(page.attachments).toBeUndefined();
    expect(page.text).toMatch(/page\.html/);
    // What people show each other in a room is not fetched.
    const aside = await say({ from: ADA.id, room: ROOM.id, type: types.Message.Image, file: picture });
    expect(aside).toMatchObject({ text: '(image)', mentioned: false });
    expect(aside.attachments).toBeUndefined();
  });

  test('what is neither text nor file is named', async () => {
    expect((await say({ from: ADA.id, type: types.Message.Url })).text).toMatch(
      /^\(a link: .*https:\/\/mock\.url/,
    );
    expect((await say({ from: ADA.id, type: types.Message.Location })).text).toMatch(/^\(a place: /);
  });

  test('a message that is taken back cancels its run', async () => {
    const { id } = await say({ from: ADA.id, text: 'oops' });
    arrived = Promise.withResolvers();
    platform.say({ id: fresh(), from: ADA.id, type: types.Message.Recalled, text: id });
    await arrived.promise;
    expect(cancelled).toEqual([id]);
  });

  test('a chat’s messages keep their order while one can’t be made durable; other chats go on', async () => {
    let away = true;
    const tried = Promise.withResolvers<void>();
    answer = async ({ id, text, chat }) => {
      if (away && text === 'first') {
        tried.resolve();
        throw new Error('no storage');
      }
      return { status: 'queued', id, conversation: chat };
    };
    platform.say({ id: fresh(), from: ADA.id, text: 'first' });
    platform.say({ id: fresh(), from: ADA.id, text: 'second' });
    await tried.promise;
    await say({ from: BOB.id, text: 'meanwhile' });
    away = false;
    await waitFor(() => taken.length === 3);
    expect(taken.map(({ text }) => text)).toEqual(['meanwhile', 'first', 'second']);
  });

  test('a command is answered, once', async () => {
    answer = async () => ({ status: 'command', conversation: 'acc:chat', reply: 'All is **well**.' });
    await say({ from: ADA.id, ...inRoom, text: '@Lane\u2005/status' });
    await platform.until(() => platform.sent.length === 1);
    expect(platform.sent).toMatchObject([{ to: ROOM.id, text: '@Ada All is well.', mentions: [ADA.id] }]);
    answer = async () => ({ status: 'command', conversation: 'acc:chat', reply: 'again', repeated: true });
    await say({ from: ADA.id, text: '/status' });
    expect(platform.sent).toHaveLength(1);
  });
});

describe('what goes out', () => {
  test('plain words; in a room who asked is mentioned, in the first part', async () => {
    const direct = await say({ from: ADA.id, text: 'hi' });
    expect(
      await channel.deliver(delivery(direct, { text: '# Tea\n\n**hot** [here](http://t.ea)' }), never),
    ).toEqual({ status: 'sent' });
    expect(platform.sent).toEqual([{ to: ADA.id, text: 'Tea\n\nhot here (http://t.ea)', mentions: [] }]);
    platform.sent.length = 0;
    const asked = await say({ from: BOB.id, ...inRoom, text: '@Lane\u2005hi' });
    const long = Array.from({ length: 60 }, (_, at) => `Sentence ${at} ${'x'.repeat(60)}.`).join('\n\n');
    await channel.deliver(delivery(asked, { text: long }), never);
    expect(platform.sent.map(({ to, mentions }) => [to, mentions])).toEqual([
      [ROOM.id, [BOB.id]],
      [ROOM.id, []],
      [ROOM.id, []],
    ]);
    expect(platform.sent[0]?.text).toMatch(/^@Bob Sentence 0/);
    for (const { text = '' } of platform.sent) expect(text.length).toBeLessThanOrEqual(2_010);
  });

  test('pictures and files; an address as words, one that has expired by its name', async () => {
    const message = await say({ from: ADA.id, text: 'show me' });
    const { ref } = await media.put({ bytes: png(), name: 'tea.png' });
    const attachments: Reply['attachments'] = [
      { type: 'image', ref, name: 'tea.png' },
      { type: 'file', ref: 'https://example.org/a.pdf', name: 'a.pdf' },
      { type: 'file', ref: `media:${'0'.repeat(64)}.txt`, name: 'gone.txt' },
    ];
    expect(await channel.deliver(delivery(message, { text: 'Here', attachments }), never)).toEqual({
      status: 'sent',
    });
    expect(platform.sent.map(({ text }) => text)).toEqual([
      'Here',
      'a.pdf https://example.org/a.pdf',
      '(gone.txt)',
      undefined,
    ]);
    expect(platform.sent.at(-1)?.file).toEqual({ name: 'tea.png', base64: png().toString('base64') });
  });

  test('what was sent is not sent again, and a part that failed is', async () => {
    const message = await say({ from: ADA.id, text: 'hi' });
    const { ref } = await media.put({ bytes: png('!'), name: 'tea.png' });
    const twoParts = delivery(message, { text: 'one', attachments: [{ type: 'image', ref }] });
    const before = platform.attempts();
    platform.happen({ do: 'sending', how: 'fail' });
    expect(await channel.deliver(twoParts, never)).toEqual({
      status: 'retry',
      error: 'the platform says no',
    });
    platform.happen({ do: 'sending', how: 'fine' });
    expect(await channel.deliver(twoParts, never)).toEqual({ status: 'sent' });
    expect(await channel.deliver(twoParts, never)).toEqual({ status: 'sent' });
    expect(platform.sent).toHaveLength(2);
    expect(platform.attempts() - before).toBe(3);
  });

  test('an attempt that nobody waits for any more is joined, not made again', async () => {
    const message = await say({ from: ADA.id, text: 'hi' });
    const slow = delivery(message, { text: 'slowly' });
    expect(await channel.deliver(slow, AbortSignal.abort())).toEqual({
      status: 'retry',
      error: 'not sent in time',
    });
    expect(await channel.deliver(slow, never)).toEqual({ status: 'sent' });
    expect(platform.sent).toHaveLength(1);
  });

  test('somebody who is not there is not guessed at', async () => {
    const message = await say({ from: ADA.id, text: 'hi' });
    const unknown = delivery(message, { text: 'hello?' });
    unknown.address = { ...unknown.address, chat: 'wxid_nobody', name: 'Nobody' };
    // A login's contacts aren't all there at once.
    expect(await channel.deliver(unknown, never)).toMatchObject({ status: 'retry', afterMs: 5_000 });
    expect(await channel.deliver({ ...unknown, address: { chat: 7 } }, never)).toMatchObject({
      status: 'park',
    });
  });

  test('a chat of an earlier login is found by its name, if only one has it', async () => {
    const message = await say({ from: ADA.id, text: 'hi' });
    const later = delivery(message, { text: 'still there?' });
    later.address = {
      ...later.address,
      self: '@old-self',
      chat: '@nobody',
      name: EVE.name,
      alias: EVE.alias,
    };
    expect(await channel.deliver(later, never)).toEqual({ status: 'sent' });
    expect(platform.sent).toMatchObject([{ to: EVE.id }]);
    const other = { ...later, id: 'other.0', address: { ...later.address, alias: 'another Eve' } };
    expect(await channel.deliver(other, never)).toMatchObject({ status: 'retry' });
    const room = {
      ...later,
      id: 'room.0',
      address: { ...later.address, chat: '@@nowhere', group: true, name: ROOM.topic },
    };
    expect(await channel.deliver(room, never)).toEqual({ status: 'sent' });
    expect(platform.sent.at(-1)?.to).toBe(ROOM.id);
  });
});

describe('when the puppet misbehaves', () => {
  test('rejections and errors are told, without its secrets, and it goes on', async () => {
    for (const how of ['reject', 'emit'] as const) platform.happen({ do: how });
    expect((await say({ from: ADA.id, text: 'still there?' })).text).toBe('still there?');
    expect(platform.pids).toHaveLength(1);
    await vi.waitFor(() => {
      expect(JSON.stringify(lines)).toContain('rejected, with ***');
      expect(JSON.stringify(lines)).toContain('an error event');
    }, 5_000);
    const told = JSON.stringify(lines);
    expect(platform.ups).toMatchObject([{ secret: SECRET, sends: 'undefined' }]);
    expect(platform.ups[0]?.env.filter((name) => name !== 'NODE_COMPILE_CACHE')).toEqual([]);
    expect(told).not.toContain(SECRET);
  });

  test('one that dies while it sends: parked, since nobody knows; then it is started anew', async () => {
    const message = await say({ from: ADA.id, text: 'hi' });
    platform.happen({ do: 'sending', how: 'hang' });
    const before = platform.attempts();
    const result = channel.deliver(delivery(message, { text: 'answer' }), never);
    await platform.until(() => platform.attempts() > before);
    process.kill(platform.pids[0] ?? 0, 'SIGKILL');
    expect(await result).toMatchObject({
      status: 'park',
      error: expect.stringContaining('may have arrived') as string,
    });
    expect(channel.status()).toMatchObject({
      state: 'disconnected',
      detail: expect.stringContaining('SIGKILL') as string,
    });
    const waiting = await channel.deliver(delivery(message, { text: 'later' }), never);
    expect(waiting).toMatchObject({ status: 'wait' });
    await platform.up(2);
    platform.login();
    expect((await say({ from: ADA.id, text: 'back?' })).text).toBe('back?');
    expect(channel.status()).toMatchObject({ state: 'connected' });
  }, 45_000);

  test('one that writes into the line to the server: it is ended, and started anew', async () => {
    platform.happen({ do: 'garble' });
    await platform.up(3);
    platform.login();
    expect((await say({ from: ADA.id, text: 'back again?' })).text).toBe('back again?');
    expect(lines.map(({ fields }) => fields['reason'])).toContain('it said too much at once');
  }, 45_000);
});

/** Looked at in each turn of the event loop. */
async function waitFor(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => void setTimeout(resolve, 5));
}
