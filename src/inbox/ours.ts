// Whose ids belong to this server: the bot never answers itself, nor another of its accounts, or two of them would talk
// for ever.
import type { Channel } from '../ports/channel.ts';

/** True if the sender is an account of this server on the platform of `account`. */
export function isOneOf(channels: ReadonlyMap<string, Channel>, account: string, sender: string): boolean {
  const type = channels.get(account)?.type;
  return [...channels.values()].some(
    (channel) => channel.type === type && channel.botIds?.().includes(sender) === true,
  );
}
