// Who writes to the bot on Feishu, and what they mean: other bots, several apps, quotes, chains of replies; the same event again.
import { describe, expect, test, vi } from 'vitest';
import { configSchema, type FeishuSettings } from '../../config/schema.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { bot, createMemory, delivery, never, startFeishu } from '../fakes/feishu-rig.ts';
import {
  APP_ID,
  BOT_OPEN_ID,
  messageEvent,
  OTHER_APP,
  recallEvent,
  startFeishuServer,
} from '../fakes/feishu-server.ts';
import { png } from '../fakes/media.ts';

const { later } = useCleanups();

const groupSettings = (group: object): FeishuSettings['group'] => {
  const { channels } = configSchema.parse({ channels: { team: { type: 'feishu', group } } });
  return (channels['team'] as FeishuSettings).group;
};

/** A message of another bot in a group, as this app gets it. */
const fromBot = (id: string) =>
  messageEvent({
    id,
    group: true,
    sender: 'ou_as_only_this_app_knows_it',
    senderType: 'app',
    text: '@_user_1 beep',
    mentions: [bot],
  });

describe('other bots', () => {
  test('are told by their app, and as bots', async () => {
    const { server, accepted, connect } = await startFeishu(later);
    server.quotes.set('om_1', { text: 'beep', sender: OTHER_APP.id, senderType: 'app' });
    await connect();
    await server.push(fromBot('om_1'));
    // What the platform doesn't tell: the id of the event has to do.
    await server.push(fromBot('om_2'));
    expect(accepted.map(({ sender }) => sender)).toEqual([
      { id: OTHER_APP.id, bot: true },
      { id: 'ou_as_only_this_app_knows_it', bot: true },
    ]);
  });

  test('are never answered directly, nor without an id: it could be the bot itself', async () => {
    const { server, accepted, connect } = await startFeishu(later);
    await connect();
    const app = { senderType: 'app', text: '@_user_1 me?', mentions: [bot] };
    expect(await server.push(messageEvent({ ...app, sender: 'ou_someone' }))).toBe(200);
    expect(await server.push(messageEvent({ ...app, sender: '', group: true }))).toBe(200);
    expect(await server.push(messageEvent({ ...app, sender: APP_ID, group: true }))).toBe(200);
    expect(accepted).toEqual([]);
  });

  test('a channel knows its own ids, by which every account of the server knows it', async () => {
    const { channel, connect } = await startFeishu(later);
    expect(channel.botIds?.()).toEqual([APP_ID]);
    await connect();
    expect(channel.botIds?.()).toEqual([APP_ID, BOT_OPEN_ID]);
  });
});

describe('several apps', () => {
  test('keep their tokens, connections and messages apart', async () => {
    const server = await startFeishuServer();
    later(() => server.close());
    const one = await startFeishu(later, { server });
    const two = await startFeishu(later, {
      server,
      settings: { app_id: OTHER_APP.id, app_secret: OTHER_APP.secret },
    });
    await Promise.all([one.connect(), two.connect()]);
    await server.push(messageEvent({ text: 'to one' }));
    await server.push(messageEvent({ text: 'to two', app: OTHER_APP.id }));
    expect(one.accepted.map(({ text }) => text)).toEqual(['to one']);
    expect(two.accepted.map(({ text }) => text)).toEqual(['to two']);
    expect(server.tokenRequests()).toBe(2);
    expect(two.channel.botIds?.()).toEqual([OTHER_APP.id, OTHER_APP.botOpenId]);
  });
});

describe('quotes', () => {
  test('a quoted picture comes along, when the question brings none', async () => {
    const { server, accepted, connect } = await startFeishu(later);
    server.quotes.set('om_old', {
      text: '',
      sender: 'ou_bob',
      type: 'image',
      content: { image_key: 'img_1' },
    });
    server.files.set('img_1', png());
    await connect();
    await server.push(messageEvent({ text: 'what is this?', parent: 'om_old', root: 'om_old' }));
    expect(accepted[0]).toMatchObject({ text: 'what is this?', attachments: [{ type: 'image' }] });
  });

  test('a quoted card is read as its texts', async () => {
    const { server, accepted, connect } = await startFeishu(later);
    const elements = [
      [{ tag: 'text', text: 'Build 7 failed' }],
      [{ tag: 'a', text: 'log', href: 'https://e.org' }],
    ];
    server.quotes.set('om_old', {
      text: '',
      sender: 'ou_ci',
      type: 'interactive',
      content: { title: 'CI', elements },
    });
    await connect();
    await server.push(messageEvent({ text: 'why?', parent: 'om_old', root: 'om_old' }));
    expect(accepted[0]).toMatchObject({
      quote: '> CI\n> Build 7 failed\n> [log](https://e.org)',
      text: 'why?',
    });
  });

  test('a question in a chain of replies is answered in it, in the same conversation', async () => {
    const { server, accepted, channel, connect } = await startFeishu(later);
    await connect();
    await server.push(messageEvent({ id: 'om_2', text: 'and then?', root: 'om_1', parent: 'om_1' }));
    const [message] = accepted;
    expect(message).not.toHaveProperty('thread');
    await channel.deliver(delivery('this', { address: message?.replyTo?.address ?? {} }), never);
    expect(server.messages).toMatchObject([{ replyTo: 'om_2', inThread: false }]);
  });
});

describe('groups', () => {
  test.each([
    { what: 'always', group: { trigger: 'always' }, text: 'look', full: true },
    { what: 'a prefix', group: { trigger: 'prefix', prefix: 'bot,' }, text: 'bot, look', full: true },
    { what: 'no prefix', group: { trigger: 'prefix', prefix: 'bot,' }, text: 'look', full: false },
    { what: 'a mention that is not there', group: {}, text: 'look', full: false },
  ] as const)('asked by $what: name, quote and files are fetched: $full', async ({ group, text, full }) => {
    const { server, accepted, connect } = await startFeishu(later, {
      settings: { group: groupSettings(group) },
    });
    server.names.set('ou_ada', 'Ada');
    server.quotes.set('om_old', { text: 'the plan', sender: 'ou_bob' });
    server.files.set('img_1', png());
    await connect();
    const content = {
      title: '',
      content: [
        [
          { tag: 'text', text },
          { tag: 'img', image_key: 'img_1' },
        ],
      ],
    };
    await server.push(messageEvent({ group: true, type: 'post', content, parent: 'om_old', root: 'om_old' }));
    const [message] = accepted;
    expect(message?.sender.name).toBe(full ? 'Ada' : undefined);
    expect(message).toMatchObject({ text, ...(full ? { quote: '> the plan' } : {}) });
    if (!full) expect(message).not.toHaveProperty('quote');
    expect(message?.attachments?.length ?? 0).toBe(full ? 1 : 0);
  });

  test('with context messages, those who only talk have names as well', async () => {
    const { server, accepted, connect } = await startFeishu(later, {
      settings: { group: groupSettings({ context_messages: 3 }) },
    });
    server.names.set('ou_ada', 'Ada');
    await connect();
    await server.push(messageEvent({ group: true, text: 'lunch at noon?' }));
    expect(accepted[0]).toMatchObject({ sender: { id: 'ou_ada', name: 'Ada' }, mentioned: false });
  });
});

describe('files', () => {
  test('a voice message is an audio file', async () => {
    const { server, accepted, connect } = await startFeishu(later);
    const opus = Buffer.concat([Buffer.from('OggS\0'), Buffer.alloc(23), Buffer.from('OpusHead')]);
    server.files.set('file_1', opus);
    await connect();
    await server.push(messageEvent({ type: 'audio', content: { file_key: 'file_1', duration: 2_000 } }));
    expect(accepted[0]?.attachments).toMatchObject([
      { type: 'audio', media_type: expect.stringMatching(/^audio\/ogg/) as string, size: opus.length },
    ]);
  });
});

describe('the same event again', () => {
  test('is known after a restart and on another process, by its own id', async () => {
    const memory = createMemory();
    const first = await startFeishu(later, { memory });
    await first.connect();
    const event = messageEvent({ id: 'om_1', eventId: 'ev_1', text: 'hello' });
    expect(await first.server.push(event)).toBe(200);
    await first.channel.stop();
    const second = await startFeishu(later, { memory });
    await second.connect();
    expect(await second.server.push(event)).toBe(200);
    // A message of its own, though it says the same.
    expect(await second.server.push(messageEvent({ id: 'om_2', eventId: 'ev_2', text: 'hello' }))).toBe(200);
    expect(first.accepted.map(({ id }) => id)).toEqual(['om_1']);
    expect(second.accepted.map(({ id }) => id)).toEqual(['om_2']);
  });

  test('posted again to the address of events, it is answered and not taken, after a restart too', async () => {
    const memory = createMemory();
    const settings = { mode: 'webhook', verification_token: 'verification-token' } as const;
    const body = Buffer.from(JSON.stringify(messageEvent({ id: 'om_1', eventId: 'ev_1', text: 'hello' })));
    const taken: string[] = [];
    for (const _restart of [1, 2]) {
      const { channel, accepted } = await startFeishu(later, { memory, settings });
      await channel.start();
      await vi.waitFor(() => expect(channel.status().state).toBe('connected'));
      for (const _again of [1, 2])
        expect(await channel.receive?.({ headers: {}, body })).toEqual({ status: 200, body: {} });
      taken.push(...accepted.map(({ id }) => id));
    }
    expect(taken).toEqual(['om_1']);
  });

  test('a message that is taken back while it waits is cancelled when its run begins', async () => {
    const { server, channel, cancelled, connect } = await startFeishu(later);
    await connect();
    await server.push(messageEvent({ id: 'om_1', text: 'oops' }));
    await server.push(recallEvent('om_1'));
    const address = { chat: 'oc_chat', message: 'om_1', group: false, thread: false };
    const run = { id: 'r', conversation: 'team:oc_chat', delivery: 'r.0', messages: ['om_1'], address };
    await channel.live?.started(run);
    expect(cancelled).toEqual(['team:oc_chat om_1', 'team:oc_chat om_1']);
    expect(server.reactions.get('om_1')).toBeUndefined();
  });

  test('a recall that comes twice cancels once', async () => {
    const { server, cancelled, connect } = await startFeishu(later);
    await connect();
    await server.push(messageEvent({ id: 'om_1', text: 'oops' }));
    await server.push(recallEvent('om_1'));
    await server.push(recallEvent('om_1'));
    expect(cancelled).toEqual(['team:oc_chat om_1']);
  });
});
