// The Feishu channel on the unmodified SDK, against a fake platform: what comes in over the long connection, when it is
// acknowledged, and how answers go out.
import { describe, expect, test, vi } from 'vitest';
import type { FeishuSettings } from '../../config/schema.ts';
import { AppError } from '../../src/domain/errors.ts';
import type { Accepted } from '../../src/ports/channel.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { bot, delivery, never, startFeishu } from '../fakes/feishu-rig.ts';
import { BOT_OPEN_ID, messageEvent, recallEvent } from '../fakes/feishu-server.ts';
import { png } from '../fakes/media.ts';

const { later } = useCleanups();

const setUp = (settings: Partial<FeishuSettings> = {}, maxBytes = 1_000) =>
  startFeishu(later, { settings, maxBytes });

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
    expect(accepted.map(({ quote, text }) => [quote, text])).toEqual([
      ['> the deadline is Friday', 'is this true?'],
      [undefined, 'and this?'],
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
    const { server, accepted, connect, media } = await setUp({}, 100);
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
