// MessageIndex on Redis: one key per message id, gone with the dedupe window.
import type { IndexedMessage, MessageIndex } from '../../ports/message-index.ts';
import { indexKey } from './keys.ts';
import type { RedisContext } from './operations.ts';

export function createMessageIndex(
  { operate, connections }: RedisContext,
  { dedupeMs }: { dedupeMs: number },
): MessageIndex {
  return {
    async remember(account, messageId, { conversation, fingerprint }) {
      const value = JSON.stringify({ conversation, fingerprint });
      const known = await operate('remember', [indexKey(account, messageId)], [value, dedupeMs]);
      return known === null ? undefined : (JSON.parse(known as string) as IndexedMessage);
    },

    async find(account, messageId) {
      const value = await connections.call((client) => client.get(indexKey(account, messageId)));
      return value === null ? undefined : (JSON.parse(value) as IndexedMessage);
    },
  };
}
