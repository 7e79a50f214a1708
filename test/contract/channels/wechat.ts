// WeChat through wechaty for the contract suite: the real child process, with the mock puppet in it.
import { types } from 'wechaty-puppet';
import { createWechatChannel } from '../../../channels/wechat/index.ts';
import { configSchema, type WechatSettings } from '../../../config/schema.ts';
import { systemClock } from '../../../src/system-clock.ts';
import { createTestMedia } from '../../fakes/media.ts';
import { ADA, BOB, BOT, ROOM, startWechatPlatform } from '../../fakes/wechat-platform.ts';
import { ACCOUNT, type ChannelParts, type ChannelRig, type Said } from '../suites/channel.ts';

export async function wechatRig(parts: ChannelParts): Promise<ChannelRig> {
  const { accept, cancel, folder, log, memory, storage } = parts;
  const platform = await startWechatPlatform();
  const undo: (() => Promise<unknown>)[] = [];
  const media = await createTestMedia((step) => void undo.push(step));
  const { channels } = configSchema.parse({ channels: { [ACCOUNT]: platform.settings } });
  /** Message id → who waits for what accept() says of it. */
  const asked = new Map<string, ((taken: boolean) => void)[]>();
  const channel = createWechatChannel({
    account: ACCOUNT,
    settings: channels[ACCOUNT] as WechatSettings,
    async accept(account, message) {
      const tell = (taken: boolean) => asked.get(message.id)?.shift()?.(taken);
      try {
        const accepted = await accept(account, message);
        tell(true);
        return accepted;
      } catch (error) {
        tell(false);
        throw error;
      }
    },
    cancel,
    memory,
    state: storage.channelState(ACCOUNT),
    leaseMs: 10_000,
    media,
    dataDir: folder,
    print: () => undefined,
    clock: systemClock,
    log,
  });
  const said = ({ id, sender, text, group = false, mentioned = true }: Said) => ({
    id,
    from: sender,
    ...(group
      ? {
          room: ROOM.id,
          ...(mentioned ? { text: `@${BOT.name}\u2005${text}`, mentions: [BOT.id] } : { text }),
        }
      : { text }),
  });

  return {
    channel,
    ids: { ada: ADA.id, bob: BOB.id, direct: ADA.id, group: ROOM.id },
    async connected() {
      await platform.up();
      platform.login();
      while (channel.status().state !== 'connected') await turn();
    },
    async say(message) {
      const { promise, resolve } = Promise.withResolvers<boolean>();
      asked.set(message.id, [...(asked.get(message.id) ?? []), resolve]);
      platform.say(said(message));
      return { id: message.id, acknowledged: await promise };
    },
    async echo(message) {
      platform.say({ ...said(message), from: BOT.id });
    },
    garbage: [
      async () => platform.happen({ do: 'reject' }),
      async () => platform.happen({ do: 'emit' }),
      async () => platform.say({ id: 'odd', from: ADA.id, type: types.Message.Unknown, text: '' }),
    ],
    sent: () => platform.sent.map(({ to, text = '' }) => ({ chat: to, text })),
    async away() {
      platform.logout();
      while (channel.status().state === 'connected') await turn();
    },
    connections: () => platform.connections(),
    async close() {
      await platform.close();
      for (const step of undo) await step();
    },
  };
}

/** Of the event loop: a timer of the test's own would be counted as the channel's. */
const turn = () => new Promise((resolve) => void setImmediate(resolve));
