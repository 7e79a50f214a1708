// Feishu for the contract suite: the unmodified SDK on its long connection, against a fake of the platform.
import { randomBytes } from 'node:crypto';
import { createFeishuChannel } from '../../../channels/feishu/index.ts';
import { configSchema, type FeishuSettings } from '../../../config/schema.ts';
import { systemClock } from '../../../src/system-clock.ts';
import {
  APP_ID,
  APP_SECRET,
  BOT_OPEN_ID,
  messageEvent,
  startFeishuServer,
} from '../../fakes/feishu-server.ts';
import { encodeFrame } from '../../fakes/feishu-frames.ts';
import { ACCOUNT, type ChannelParts, type ChannelRig, type Said } from '../suites/channel.ts';

/** Of frames that say nothing of use. */
const HEADERS: Record<string, string>[] = [
  {},
  { type: 'event' },
  { type: 'event', message_id: 'x', sum: '1', seq: '0' },
];

const bot = { openId: BOT_OPEN_ID, name: 'Lane' };

export async function feishuRig(parts: ChannelParts): Promise<ChannelRig> {
  const { accept, cancel, log, media, memory } = parts;
  const server = await startFeishuServer();
  const { channels } = configSchema.parse({
    channels: {
      [ACCOUNT]: { type: 'feishu', app_id: APP_ID, app_secret: APP_SECRET, domain: server.url },
    },
  });
  const channel = createFeishuChannel({
    account: ACCOUNT,
    settings: channels[ACCOUNT] as FeishuSettings,
    accept,
    cancel,
    memory,
    media,
    clock: systemClock,
    log,
  });
  const event = ({ id, chat, sender, text, group = false, mentioned = true }: Said) =>
    messageEvent({
      id: `om_${id}`,
      chat,
      sender,
      group,
      ...(group && mentioned ? { text: `@_user_1 ${text}`, mentions: [bot] } : { text }),
    });
  const events = [
    { schema: '2.0' },
    { schema: '2.0', header: { event_type: 'im.message.receive_v1' }, event: { message: 1 } },
    { schema: '2.0', header: { event_type: 'im.unheard.of_v9' }, event: null },
    { header: { event_type: 'im.message.receive_v1' }, event: { sender: [], message: { content: '{' } } },
  ];
  let away = false;

  return {
    channel,
    ids: { ada: 'ou_ada', bob: 'ou_bob', direct: 'oc_direct', group: 'oc_group' },
    // Not server.connected(): the vendor's client loses what comes before it listens.
    connected: () => until(() => channel.status().state === 'connected'),
    async say(message) {
      return { id: `om_${message.id}`, acknowledged: (await server.push(event(message))) === 200 };
    },
    async echo(message) {
      await server.push(messageEvent({ ...message, sender: BOT_OPEN_ID, senderType: 'app' }));
    },
    garbage: [
      ...['', 'not a frame', Buffer.alloc(0), Buffer.from([0xff, 0xff, 0xff]), randomBytes(400)].map(
        (bytes) => async () => server.sendRaw(bytes),
      ),
      // Frames that are some: no headers, no JSON.
      ...HEADERS.map(
        (headers) => async () =>
          server.sendRaw(encodeFrame({ service: 7, method: 1, headers, payload: Buffer.from('{') })),
      ),
      ...events.map((one) => () => server.push({ event: {}, ...one })),
    ],
    sent: () =>
      server.calls
        .filter(
          ({ method, path }) => method === 'POST' && /^\/im\/v1\/messages(?:\/[^/]+\/reply)?$/.test(path),
        )
        .map(({ path, body }) => {
          const [, target] = /^\/im\/v1\/messages\/([^/]+)\/reply$/.exec(path) ?? [];
          return {
            chat: target === undefined ? String(body['receive_id']) : server.chatOf(target),
            text: String(body['content']),
            key: String(body['uuid']),
          };
        }),
    async away() {
      away = true;
      await server.close();
    },
    connections: () => server.connections(),
    close: async () => (away ? undefined : server.close()),
  };
}

/** Turns of the event loop: a timer of the test's own would be counted as the channel's. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => void setImmediate(resolve));
}
