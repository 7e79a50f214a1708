// What channels remember beyond their process, kept where message ids are kept.
import type { ChannelMemory } from '../ports/channel.ts';
import type { MessageIndex } from '../ports/message-index.ts';

/** Keys of this kind never meet the ids that programs give to their messages. */
const keyOf = (key: string): string => `channel/${key}`;

export function createChannelMemory(index: MessageIndex, account: string): ChannelMemory {
  return {
    async remember(key, value) {
      await index.remember(account, keyOf(key), { conversation: '', fingerprint: value });
    },
    find: async (key) => (await index.find(account, keyOf(key)))?.fingerprint,
  };
}
