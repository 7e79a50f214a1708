// The embedded Preferences; maintenance.ts forgets them with their conversation.
import type { Preference, Preferences } from '../../ports/preferences.ts';
import type { Database } from './database.ts';

export function createPreferences(db: Database): Preferences {
  const select = db.prepare<{ body: string }>('SELECT body FROM preferences WHERE conversation = ?');
  const replace = db.prepare('INSERT OR REPLACE INTO preferences (conversation, body) VALUES (?, ?)');
  const known = (conversation: string): Record<string, unknown> =>
    JSON.parse(select.get(conversation)?.body ?? '{}') as Record<string, unknown>;

  return {
    get(conversation) {
      return db.read(() => known(conversation) as Preference);
    },

    async set(conversation, change) {
      await db.write(() => {
        const fields = Object.entries({ ...known(conversation), ...change });
        const kept = fields.filter(([, value]) => value !== null && value !== undefined);
        replace.run(conversation, JSON.stringify(Object.fromEntries(kept)));
      });
    },
  };
}
