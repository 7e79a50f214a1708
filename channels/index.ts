// The channels there are, by `type`. An adapter's code, and its SDK, is loaded only when an account of it is configured.
import type { ChannelSettings, Config } from '../config/schema.ts';
import type { Accept, Channel, ChannelMemory } from '../src/ports/channel.ts';
import type { ChannelStates } from '../src/ports/channel-state.ts';
import type { Clock } from '../src/ports/clock.ts';
import type { Logger } from '../src/ports/log.ts';
import type { MediaStore } from '../src/ports/media.ts';

export interface ChannelDeps {
  clock: Clock;
  log: Logger;
  accept: Accept;
  /** Cancels the run of a message that was taken back. False if it isn't running (yet, or any more). */
  cancel: (conversation: string, message: string) => Promise<boolean>;
  memory: (account: string) => ChannelMemory;
  /** What outlives the process for good: logins, cursors. */
  state: ChannelStates;
  /** How long a process that acts for an account may be silent before another one takes over. */
  leaseMs: number;
  /** For files that aren't messages': a login's memory. */
  dataDir: string;
  /** Writes to the operator's terminal: a QR code to log in with. */
  print: (text: string) => void;
  /** Files of messages, both ways. */
  media: MediaStore;
  /** Where people and programs reach this server; empty: not known. */
  publicUrl: string;
}

/** Makes the channels of all enabled accounts, not started. Rejects with AppError 'config_invalid'. */
export async function createChannels(
  accounts: Config['channels'],
  deps: ChannelDeps,
): Promise<Map<string, Channel>> {
  const channels = new Map<string, Channel>();
  for (const [account, settings] of Object.entries(accounts)) {
    if (isOn(settings)) channels.set(account, await createChannel(account, settings, deps));
  }
  return channels;
}

/** An account of a platform is there without its credentials, or its puppet, in the default configuration. */
export const isOn = (settings: ChannelSettings): boolean =>
  settings.enabled &&
  !(settings.type === 'feishu' && settings.app_id === '') &&
  !(settings.type === 'wechat' && settings.puppet === '');

async function createChannel(
  account: string,
  settings: ChannelSettings,
  { clock, log, ...deps }: ChannelDeps,
): Promise<Channel> {
  switch (settings.type) {
    case 'webhook': {
      const { createWebhookChannel } = await import('./webhook/index.ts');
      return createWebhookChannel({ account, settings, clock, log, publicUrl: deps.publicUrl });
    }
    case 'web': {
      const { createWebChannel } = await import('./web/index.ts');
      return createWebChannel({ account });
    }
    case 'feishu': {
      const { createFeishuChannel } = await import('./feishu/index.ts');
      return createFeishuChannel({ account, settings, clock, log, ...deps, memory: deps.memory(account) });
    }
    case 'weixin': {
      const { createWeixinChannel } = await import('./weixin/index.ts');
      const { accept, media, leaseMs, print } = deps;
      const own = { memory: deps.memory(account), state: deps.state(account) };
      return createWeixinChannel({ account, settings, clock, log, accept, media, leaseMs, print, ...own });
    }
    case 'wechat': {
      const { createWechatChannel } = await import('./wechat/index.ts');
      const [memory, state] = [deps.memory(account), deps.state(account)];
      return createWechatChannel({ account, settings, clock, log, ...deps, memory, state });
    }
  }
}
