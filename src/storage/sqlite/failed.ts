// The embedded FailedMessages: rows that the store's commit writes. Asking again is a new arrival of the old message.
import type { InboundMessage } from '../../domain/inbound.ts';
import type { FailedMessages } from '../../ports/failed.ts';
import type { Arrivals } from './arrivals.ts';
import type { Conversations } from './conversations.ts';
import type { Database } from './database.ts';

interface FailedRow {
  seq: number;
  at: number;
  run: string;
  error: string;
  body: string;
}

export function createFailed(db: Database, { find }: Conversations, arrivals: Arrivals): FailedMessages {
  const page = db.prepare<FailedRow>('SELECT * FROM failed WHERE seq < ? ORDER BY seq DESC LIMIT ?');
  const select = db.prepare<FailedRow>('SELECT * FROM failed WHERE conversation = ? AND id = ?');
  const remove = db.prepare('DELETE FROM failed WHERE seq = ?');
  // Its place in the order of arrival is a new one.
  const forget = db.prepare('DELETE FROM messages WHERE conversation = ? AND id = ?');

  return {
    list({ cursor, limit }) {
      return db.read(() => {
        const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor);
        if (!Number.isSafeInteger(before)) return { items: [] };
        const rows = page.all(before, limit + 1);
        const shown = rows.slice(0, limit);
        const last = shown.at(-1);
        return {
          items: shown.map(({ at, run, error, body }) => {
            const { id, conversation, account, sender, text } = JSON.parse(body) as InboundMessage;
            return { id, conversation, account, sender, text, run, error, at };
          }),
          ...(rows.length > limit && last !== undefined && { cursor: String(last.seq) }),
        };
      });
    },

    async retry(conversation, messageId) {
      const arrived = await db.write(() => {
        const row = find(conversation);
        const failed = row && select.get(row.key, messageId);
        if (row === undefined || failed === undefined) return undefined;
        remove.run(failed.seq);
        forget.run(row.key, messageId);
        return arrivals.add(row.key, row, messageId, failed.body);
      });
      arrivals.tell(conversation, arrived);
      return arrived !== undefined;
    },
  };
}
