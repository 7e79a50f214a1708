// The Feishu channel on the unmodified SDK, against a fake platform: what comes in over the long connection, when it is
// acknowledged, and how answers go out.
import { describe, expect, test, vi } from 'vitest';
import { createFeishuChannel } from '../../channels/feishu/index.ts';
import { configSchema, type FeishuSettings } from '../../config/schema.ts';
import type { Delivery } from '../../src/domain/delivery.ts';
import { AppError } from '../../src/domain/errors.ts';
import type { Accepted, ChannelMemory, ChannelMessage } from '../../src/ports/channel.ts';
import { systemClock } from '../../src/system-clock.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import {
  APP_ID,
  APP_SECRET,
  BOT_OPEN_ID,
  messageEvent,
  recallEvent,
  startFeishuServer,
  type FeishuServer,
} from '../fakes/feishu-server.ts';
import { recordingLog } from '../fakes/log.ts';
import { createTestMedia, png } from '../fakes/media.ts';

const { later } = useCleanups();

function settingsFor(server: FeishuServer, more: Partial<FeishuSettings> = {}): FeishuSettings {
  const config = configSchema.parse({
    channels: {
      team: { type: 'feishu', app_id: APP_ID, app_secret: APP_SECRET, domain: server.url, ...more },
    },
  });
  return config.channels['team'] as FeishuSettings;
}

function createMemory(): ChannelMemory {
  const facts = new Map<string, string>();
  return {
    async remember(key, value) {
      if (!facts.has(key)) facts.set(key, value);
    },
    find: async (key) => facts.get(key),
  };
}

async function setUp(more: Partial<FeishuSettings> = {}, memory = createMemory(), maxBytes = 1_000) {
  const server = await startFeishuServer();
  later(() => server.close());
  const media = await createTestMedia(later, { maxBytes });
  const accepted: ChannelMessage[] = [];
  const cancelled: string[] = [];
  const { log, lines } = recordingLog();
  let answer = async (message: ChannelMessage): Promise<Accepted> => ({
    status: 'queued',
    id: message.id,
    conversation: `team:${message.chat}`,
  });
  const make = () => {
    const channel = createFeishuChannel({
      account: 'team',
      settings: settingsFor(server, more),
      accept: async (_account, message) => {
        const result = await answer(message);
        accepted.push(message);
        return result;
      },
      cancel: async (conversation, message) => cancelled.push(`${conversation} ${message}`) > 0,
      memory,
      media,
      clock: systemClock,
      log,
    });
    later(() => channel.stop());
    return channel;
  };
  const channel = make();
  return {
    server,
    channel,
    make,
    accepted,
    cancelled,
    lines,
    media,
    answerWith: (next: typeof answer) => (answer = next),
    async connect() {
      await channel.start();
      await server.connected();
      await vi.waitFor(() => expect(channel.status().state).toBe('connected'));
    },
  };
}

const bot = { openId: BOT_OPEN_ID, name: 'Lane' };
const never = new AbortController().signal;

function delivery(text: string, more: Partial<Delivery> = {}): Delivery {
  return {
    id: 'd3b07384-d113-4ec6-a1f8-000000000001.0',
    conversation: 'team:oc_chat',
    account: 'team',
    run: 'd3b07384-d113-4ec6-a1f8-000000000001',
    messages: ['om_1'],
    address: { chat: 'oc_chat', message: 'om_1', group: true, thread: false },
    status: 'done',
    reply: { text },
    at: 0,
    ...more,
  };
}

describe('messages in', () => {
  test('a direct message, with the sender’s name', async () => {
    const { server, accepted, connect } = await setUp();
    server.names.set('ou_ada', 'Ada');
    await connect();
    expect(await server.push(messageEvent({ id: 'om_1', text: 'hello' }))).toBe(200);
    expect(accepted).toEqual([
      {
        id: 'om_1',
        chat: 'oc_chat',
        sender: { id: 'ou_ada', name: 'Ada' },
        text: 'hello',
        group: false,
        mentioned: true,
        replyTo: {
          key: 'oc_chat:',
          address: { chat: 'oc_chat', message: 'om_1', group: false, thread: false },
        },
        at: expect.any(Number) as number,
      },
    ]);
  });

  test('a mention in a thread of a group, in several frames', async () => {
    const { server, accepted, connect } = await setUp();
    await connect();
    const event = messageEvent({
      group: true,
      thread: 'omt_1',
      root: 'om_root',
      parent: 'om_root',
      text: '@_user_1 ask @_user_2 about it',
      mentions: [bot, { openId: 'ou_bob', name: 'Bob' }],
    });
    expect(await server.push(event, { parts: 3 })).toBe(200);
    expect(accepted[0]).toMatchObject({
      thread: 'omt_1',
      text: 'ask @Bob about it',
      group: true,
      mentioned: true,
      replyTo: { key: 'oc_chat:omt_1', address: { thread: true } },
    });
  });

  test('group messages that mention somebody else, or everybody, do not mention the bot', async () => {
    const { server, accepted, connect } = await setUp();
    await connect();
    await server.push(
      messageEvent({ group: true, text: '@_user_1 hi', mentions: [{ openId: 'ou_bob', name: 'Bob' }] }),
    );
    await server.push(messageEvent({ group: true, text: '@_all hi' }));
    expect(accepted.map(({ mentioned, text }) => ({ mentioned, text }))).toEqual([
      { mentioned: false, text: '@Bob hi' },
      { mentioned: false, text: '@all hi' },
    ]);
  });

  test('a mention of everybody counts if it is set', async () => {
    const { server, accepted, connect } = await setUp({ mention_all: true });
    await connect();
    await server.push(messageEvent({ group: true, text: '@_all hi' }));
    expect(accepted[0]).toMatchObject({ mentioned: true });
  });

  test('a quoted message is fetched', async () => {
    const { server, accepted, connect } = await setUp();
    server.quotes.set('om_old', { text: 'the deadline is Friday', sender: 'ou_bob' });
    await connect();
    await server.push(messageEvent({ text: 'is this true?', parent: 'om_old', root: 'om_old' }));
    await server.push(messageEvent({ text: 'and this?', parent: 'om_gone', root: 'om_gone' }));
    expect(accepted.map(({ text }) => text)).toEqual([
      '> the deadline is Friday\n\nis this true?',
      'and this?',
    ]);
  });

  test('the bot’s own messages and old ones are dropped', async () => {
    const { server, accepted, connect } = await setUp();
    await connect();
    expect(await server.push(messageEvent({ senderType: 'app', sender: BOT_OPEN_ID, text: 'me' }))).toBe(200);
    expect(await server.push(messageEvent({ text: 'old', atMs: Date.now() - 31 * 60_000 }))).toBe(200);
    expect(accepted).toEqual([]);
  });

  test('pictures are fetched up to a size, and named when they are not there', async () => {
    const { server, accepted, connect, media } = await setUp({}, createMemory(), 100);
    server.files.set('img_1', png());
    server.files.set('big', Buffer.alloc(101));
    await connect();
    await server.push(messageEvent({ type: 'image', content: { image_key: 'img_1' } }));
    await server.push(messageEvent({ type: 'file', content: { file_key: 'big', file_name: 'big.zip' } }));
    const [image] = accepted[0]?.attachments ?? [];
    expect(image).toMatchObject({ type: 'image', media_type: 'image/png', size: png().length });
    expect((await media.get(image?.ref ?? ''))?.bytes).toEqual(png());
    expect(accepted[1]).toMatchObject({ text: expect.stringContaining('big.zip') as string });
    expect(accepted[1]).not.toHaveProperty('attachments');
  });

  test('no acknowledgement when it could not be made durable; the redelivery is taken', async () => {
    const { server, accepted, connect, answerWith } = await setUp();
    await connect();
    answerWith(() => Promise.reject(new AppError('storage_unavailable', 'away')));
    const event = messageEvent({ id: 'om_1', text: 'hello' });
    expect(await server.push(event)).toBe(500);
    answerWith(async ({ id }) => ({ status: 'queued', id, conversation: 'team:oc_chat' }));
    expect(await server.push(event)).toBe(200);
    expect(accepted).toHaveLength(1);
  });

  test('the acknowledgement waits for the append', async () => {
    const { server, connect, answerWith } = await setUp();
    await connect();
    const { promise, resolve } = Promise.withResolvers<Accepted>();
    const asked = new Promise<void>((reached) => {
      answerWith(() => {
        reached();
        return promise;
      });
    });
    let code: number | undefined;
    const acknowledged = server.push(messageEvent({ id: 'om_1' })).then((value) => (code = value));
    await asked;
    expect(code).toBeUndefined();
    resolve({ status: 'queued', id: 'om_1', conversation: 'team:oc_chat' });
    expect(await acknowledged).toBe(200);
  });

  test('events of an unknown kind or shape are acknowledged and change nothing', async () => {
    const { server, accepted, connect, lines } = await setUp();
    await connect();
    const event = messageEvent();
    expect(await server.push({ ...event, event: { sender: 1 } })).toBe(200);
    expect(await server.push({ ...event, header: { event_type: 'im.unheard.of_v9' } })).toBe(200);
    expect(accepted).toEqual([]);
    expect(lines.some(({ message }) => message.includes('unknown shape'))).toBe(true);
  });

  test('a command is carried out once and answered once', async () => {
    const { server, accepted, connect, answerWith } = await setUp();
    answerWith(async () => ({ status: 'command', conversation: 'team:oc_chat', reply: 'All right.' }));
    await connect();
    const event = messageEvent({ id: 'om_1', text: '/new' });
    expect(await server.push(event)).toBe(200);
    expect(await server.push(event)).toBe(200);
    expect(accepted).toHaveLength(1);
    expect(server.seen('oc_chat')).toEqual(['All right.']);
  });

  test('a recall cancels the run of the message', async () => {
    const { server, cancelled, connect } = await setUp();
    await connect();
    await server.push(messageEvent({ id: 'om_1', text: 'oops' }));
    expect(await server.push(recallEvent('om_1'))).toBe(200);
    expect(await server.push(recallEvent('om_unknown'))).toBe(200);
    expect(cancelled).toEqual(['team:oc_chat om_1']);
  });
});

describe('the connection', () => {
  test('is made again when it breaks', async () => {
    const { server, accepted, connect, channel } = await setUp();
    await connect();
    server.dropConnections();
    await server.connected();
    await vi.waitFor(() => expect(channel.status().state).toBe('connected'));
    await server.push(messageEvent({ text: 'still there?' }));
    expect(accepted).toHaveLength(1);
  });

  test('a wrong secret is told, without the secret', async () => {
    const { channel, lines } = await setUp({ app_secret: 'a-wrong-secret' });
    await channel.start();
    await vi.waitFor(() => expect(channel.status().state).toBe('failed'));
    expect(channel.status().detail).toContain('app_secret');
    expect(JSON.stringify([channel.status(), lines])).not.toContain('a-wrong-secret');
  });

  test('stop() leaves nothing behind, also while it is being made', async () => {
    const { server, channel, make } = await setUp();
    await channel.start();
    await channel.stop();
    await channel.stop();
    expect(channel.status().state).toBe('stopped');
    const other = make();
    await other.start();
    await server.connected();
    await other.stop();
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });
});

describe('answers out', () => {
  test('to a direct chat, to a group, into a thread', async () => {
    const { server, channel } = await setUp();
    const address = { chat: 'oc_chat', message: 'om_1', group: false, thread: false };
    expect(await channel.deliver(delivery('one', { id: 'r.0', address }), never)).toEqual({ status: 'sent' });
    await channel.deliver(delivery('two', { id: 'r.1' }), never);
    await channel.deliver(
      delivery('three', { id: 'r.2', address: { ...address, group: true, thread: true } }),
      never,
    );
    expect(server.messages).toMatchObject([
      { chat: 'oc_chat', type: 'post', inThread: false },
      { replyTo: 'om_1', type: 'post', inThread: false },
      { replyTo: 'om_1', type: 'post', inThread: true },
    ]);
    expect(server.messages[0]).not.toHaveProperty('replyTo');
  });

  test('a long answer in parts, each with its own uuid; sent again, nothing is doubled', async () => {
    const { server, channel } = await setUp();
    const text = Array.from({ length: 60 }, (_, n) => `Paragraph ${n}: ${'words '.repeat(30)}`).join('\n\n');
    server.fail('POST', /reply$/, { status: 500, code: 1000005 });
    expect(await channel.deliver(delivery(text), never)).toMatchObject({ status: 'retry' });
    expect(await channel.deliver(delivery(text), never)).toEqual({ status: 'sent' });
    expect(await channel.deliver(delivery(text), never)).toEqual({ status: 'sent' });
    const uuids = server.messages.map(({ uuid }) => uuid);
    expect(new Set(uuids).size).toBe(uuids.length);
    expect(uuids.length).toBeGreaterThan(2);
    expect(server.calls.filter(({ path }) => path.endsWith('reply'))).toHaveLength(1 + 2 * uuids.length);
  });

  test('an answer whose acknowledgement was lost is not sent twice', async () => {
    const { server, channel } = await setUp();
    server.fail('POST', /reply$/, { lost: true });
    expect(await channel.deliver(delivery('hello'), never)).toMatchObject({ status: 'retry' });
    expect(await channel.deliver(delivery('hello'), never)).toEqual({ status: 'sent' });
    expect(server.messages).toHaveLength(1);
  });

  test('code goes into a card; what is refused as formatted is sent as text', async () => {
    const { server, channel } = await setUp();
    await channel.deliver(delivery('```js\nlet a\n```', { id: 'r.0' }), never);
    server.fail('POST', /reply$/, { code: 230099 });
    expect(await channel.deliver(delivery('# odd', { id: 'r.1' }), never)).toEqual({ status: 'sent' });
    expect(server.messages.map(({ type }) => type)).toEqual(['interactive', 'text']);
  });

  test.each([
    [{ code: 230020 }, 'retry'],
    [{ code: 11232 }, 'retry'],
    [{ status: 400, code: 99991400 }, 'retry'],
    [{ status: 502, code: 1 }, 'retry'],
    [{ code: 230011 }, 'drop'],
    [{ code: 231003 }, 'drop'],
    [{ status: 400, code: 99991672 }, 'park'],
    [{ code: 230002 }, 'park'],
    [{ code: 424242 }, 'park'],
  ] as const)('%o → %s', async (failure, status) => {
    const { server, channel } = await setUp();
    server.fail('POST', /reply$/, failure);
    expect(await channel.deliver(delivery('hello'), never)).toMatchObject({ status });
  });

  test('after a 429 the whole app waits as long as it was told', async () => {
    const { server, channel } = await setUp();
    server.fail('POST', /reply$/, { status: 429, code: 99991400, headers: { 'retry-after': '7' } });
    expect(await channel.deliver(delivery('a'), never)).toMatchObject({ status: 'retry', afterMs: 7_000 });
    const calls = server.calls.length;
    const second = await channel.deliver(delivery('b', { id: 'r.9' }), never);
    expect(second).toMatchObject({ status: 'retry' });
    expect((second as { afterMs: number }).afterMs).toBeGreaterThan(5_000);
    expect(server.calls.length).toBe(calls);
  });

  test('one token request for many calls at once; a token that turned bad is replaced', async () => {
    const { server, channel } = await setUp();
    const ids = Array.from({ length: 10 }, (_, n) => `r${n}.0`);
    await Promise.all(ids.map((id) => channel.deliver(delivery('hello', { id }), never)));
    expect(server.messages).toHaveLength(10);
    expect(server.tokenRequests()).toBe(1);
    server.expireTokens();
    expect(await channel.deliver(delivery('again', { id: 'r11.0' }), never)).toEqual({ status: 'sent' });
    expect(server.tokenRequests()).toBe(2);
  });

  test('files and pictures by reference; a link as such; what has expired is named', async () => {
    const { server, channel, media } = await setUp();
    const report = await media.put({ bytes: Buffer.from('PDF'), name: 'report.pdf' });
    const picture = await media.put({ bytes: png() });
    const attachments = [
      { type: 'file' as const, ...report },
      { type: 'image' as const, ...picture },
      { type: 'file' as const, ref: 'https://example.com/a.zip', name: 'a.zip' },
      { type: 'file' as const, ref: picture.ref.replace(/[0-9a-f]{8}\./, '00000000.'), name: 'old.png' },
      { type: 'file' as const, ref: '/etc/passwd', name: 'passwd' },
    ];
    expect(await channel.deliver(delivery('see', { reply: { text: 'see', attachments } }), never)).toEqual({
      status: 'sent',
    });
    expect(server.messages.map(({ type }) => type)).toEqual([
      'post',
      'file',
      'image',
      'post',
      'post',
      'post',
    ]);
    expect(server.uploads).toEqual([
      expect.objectContaining({ path: '/im/v1/files' }),
      expect.objectContaining({ path: '/im/v1/images' }),
    ]);
    const texts = server.messages.map(({ content }) => content);
    expect(texts[3]).toContain('https://example.com/a.zip');
    expect(texts.slice(4)).toEqual([
      expect.stringContaining('old.png') as string,
      expect.stringContaining('expired') as string,
    ]);
  });

  test('a delivery that is given up in time', async () => {
    const { server, channel } = await setUp();
    const release = server.hold('POST', /reply$/);
    const stop = new AbortController();
    const result = channel.deliver(delivery('slow'), stop.signal);
    await vi.waitFor(() => expect(server.calls.some(({ path }) => path.endsWith('reply'))).toBe(true));
    stop.abort();
    expect(await result).toMatchObject({ status: 'retry' });
    release();
  });
});

describe('the doctor', () => {
  test('is told which scopes are missing', async () => {
    const { server, channel } = await setUp();
    for (const scope of ['im:message.p2p_msg:readonly', 'im:message', 'im:resource'])
      server.scopes.add(scope);
    const told = (await channel.check?.()) ?? [];
    const missing = told.filter(({ state }) => state === 'wrong').map(({ text }) => text);
    expect(missing).toEqual([expect.stringContaining('im:message.group_at_msg:readonly')]);
    expect(told.some(({ text }) => text.includes('cardkit:card:write'))).toBe(true);
  });

  test('is told that the credentials are wrong', async () => {
    const { channel } = await setUp({ app_secret: 'a-wrong-secret' });
    const told = (await channel.check?.()) ?? [];
    expect(told).toMatchObject([{ state: 'wrong' }]);
    expect(JSON.stringify(told)).not.toContain('a-wrong-secret');
  });
});

describe('several apps', () => {
  test('keep their tokens and connections apart', async () => {
    const one = await setUp();
    const two = await setUp();
    await Promise.all([one.connect(), two.connect()]);
    await one.server.push(messageEvent({ text: 'to one' }));
    await two.server.push(messageEvent({ text: 'to two' }));
    expect(one.accepted.map(({ text }) => text)).toEqual(['to one']);
    expect(two.accepted.map(({ text }) => text)).toEqual(['to two']);
    expect(one.server.tokenRequests() + two.server.tokenRequests()).toBe(2);
  });
});
