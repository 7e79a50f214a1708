// The embedded ChannelState. Leases are this process's memory: no other one has the database open.
import type { ChannelStates } from '../../ports/channel-state.ts';
import type { Database } from './database.ts';

export function createChannelStates(db: Database): ChannelStates {
  const select = db.prepare<{ body: string }>('SELECT body FROM channel_state WHERE account = ? AND key = ?');
  const replace = db.prepare('INSERT OR REPLACE INTO channel_state (account, key, body) VALUES (?, ?, ?)');
  const remove = db.prepare('DELETE FROM channel_state WHERE account = ? AND key = ?');
  const leases = new Map<string, { holder: string; until: number }>();

  return (account) => ({
    get(key) {
      return db.read(() => {
        const row = select.get(account, key);
        return row && (JSON.parse(row.body) as unknown);
      });
    },
    async set(key, value) {
      const body = JSON.stringify(value);
      await db.write(() => replace.run(account, key, body));
    },
    async delete(key) {
      await db.write(() => remove.run(account, key));
    },
    async lease(holder, ms) {
      const now = performance.now();
      const known = leases.get(account);
      if (known && known.holder !== holder && known.until > now) return false;
      leases.set(account, { holder, until: now + ms });
      return true;
    },
    async release(holder) {
      if (leases.get(account)?.holder === holder) leases.delete(account);
    },
  });
}
