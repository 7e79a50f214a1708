// iLink for the contract suite: a strict fake of the platform. Its acknowledgement is the cursor of the next poll.
import { createWeixinChannel } from '../../../channels/weixin/index.ts';
import { configSchema, type WeixinSettings } from '../../../config/schema.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import { systemClock } from '../../../src/system-clock.ts';
import { startIlinkServer } from '../../fakes/ilink-server.ts';
import { ACCOUNT, type ChannelParts, type ChannelRig } from '../suites/channel.ts';

const BOT = 'bot-1';
/** Each rig has a platform of its own, where the login of another one is worth nothing. */
let serial = 0;

/** Pauses between tries take no time. */
const clock: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 5), signal) };

export async function weixinRig({ accept, log, media, memory, storage }: ChannelParts): Promise<ChannelRig> {
  const server = await startIlinkServer();
  const { channels } = configSchema.parse({
    channels: { [ACCOUNT]: { type: 'weixin', base_url: server.url } },
  });
  const channel = createWeixinChannel({
    account: ACCOUNT,
    settings: channels[ACCOUNT] as WeixinSettings,
    accept,
    memory,
    state: storage.channelState(`${ACCOUNT}-${++serial}`),
    media,
    leaseMs: 60_000,
    print: () => undefined,
    clock,
    log,
  });
  const taken = async (send: () => void) => {
    send();
    await server.taken(BOT);
  };

  return {
    channel,
    ids: { ada: 'user-ada', bob: 'user-bob', direct: 'user-ada' },
    async connected() {
      await (await server.qr()).confirm(BOT);
      await until(() => channel.status().state === 'connected' && server.polls(BOT) === 1);
    },
    async say({ id, sender, text }) {
      const message = { from: sender, text, more: { message_id: `wx_${id}` } };
      return { id: `wx_${id}`, acknowledged: await server.offer(BOT, message) };
    },
    echo: ({ id, text }) =>
      taken(() => server.say(BOT, { from: BOT, text, more: { message_id: `wx_${id}`, message_type: 2 } })),
    garbage: [
      ...[null, 7, {}, { from_user_id: { a: 1 } }, { from_user_id: 'x', item_list: 'none' }].map(
        (raw) => () => taken(() => server.pushRaw(BOT, raw)),
      ),
      ...['<html>', '[]', '{"ret":"0"}', '{"ret":0,"msgs":7}'].map(
        (body) => () =>
          taken(() => {
            server.fail('getupdates', { body });
            server.pushRaw(BOT, null);
          }),
      ),
    ],
    sent: () =>
      server.calls
        .filter(({ path }) => path === 'sendmessage')
        .map(({ body }) => {
          const { to_user_id, client_id, item_list } = body['msg'] as Message;
          return { chat: to_user_id, text: item_list[0]?.text_item?.text ?? '', key: client_id };
        }),
    away: () => server.close(),
    connections: () => server.connections(),
    close: () => server.close(),
  };
}

interface Message {
  to_user_id: string;
  client_id: string;
  item_list: { text_item?: { text: string } }[];
}

/** Turns of the event loop: a timer of the test's own would be counted as the channel's. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => void setImmediate(resolve));
}
