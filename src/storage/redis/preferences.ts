// Preferences on Redis: one small hash a conversation.
import type { Preference, Preferences } from '../../ports/preferences.ts';
import { conversationKeys } from './keys.ts';
import { texts, type RedisContext } from './operations.ts';

export function createPreferences(
  { operate }: RedisContext,
  { historyTtlMs }: { historyTtlMs: number },
): Preferences {
  return {
    async get(conversation) {
      const { preferences } = conversationKeys(conversation);
      const fields = texts(await operate('preferences-get', [preferences], [historyTtlMs]));
      const pairs: [string, string][] = [];
      for (let n = 0; n + 1 < fields.length; n += 2) pairs.push([fields[n]!, fields[n + 1]!]);
      return Object.fromEntries(pairs) as Preference;
    },

    async set(conversation, change) {
      const { preferences } = conversationKeys(conversation);
      const fields = Object.entries(change).flatMap(([field, value]) => [field, value ?? '']);
      await operate('preferences-set', [preferences], [historyTtlMs, ...fields]);
    },
  };
}
