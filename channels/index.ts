// The channels there are, by `type`. An adapter's code, and its SDK, is loaded only when an account of it is configured.
import type { ChannelSettings, Config } from '../config/schema.ts';
import type { Channel } from '../src/ports/channel.ts';
import type { Clock } from '../src/ports/clock.ts';
import type { Logger } from '../src/ports/log.ts';

export interface ChannelDeps {
  clock: Clock;
  log: Logger;
}

/** Makes the channels of all enabled accounts, not started. Rejects with AppError 'config_invalid'. */
export async function createChannels(
  accounts: Config['channels'],
  deps: ChannelDeps,
): Promise<Map<string, Channel>> {
  const channels = new Map<string, Channel>();
  for (const [account, settings] of Object.entries(accounts)) {
    if (settings.enabled) channels.set(account, await createChannel(account, settings, deps));
  }
  return channels;
}

async function createChannel(
  account: string,
  settings: ChannelSettings,
  { clock, log }: ChannelDeps,
): Promise<Channel> {
  switch (settings.type) {
    case 'webhook': {
      const { createWebhookChannel } = await import('./webhook/index.ts');
      return createWebhookChannel({ account, settings, clock, log });
    }
    case 'web': {
      const { createWebChannel } = await import('./web/index.ts');
      return createWebChannel({ account });
    }
  }
}
