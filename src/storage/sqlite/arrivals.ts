// A message that arrives in an inbox of the embedded store: its rows, and the signal for a run that may take it in.
import type { Signals } from './control.ts';
import type { ConversationRow, Conversations } from './conversations.ts';
import type { Database } from './database.ts';

export function createArrivals(db: Database, { heldForMs }: Conversations, signals: Signals) {
  const insertMessage = db.prepare(
    'INSERT INTO messages (conversation, id, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const insertInbox = db.prepare('INSERT INTO inbox (conversation, seq, body) VALUES (?, ?, ?)');
  const arrive = db.prepare('UPDATE conversations SET active_at = ?, waiting = waiting + 1 WHERE key = ?');

  return {
    /** For a write. The active run, if there is one; undefined if the id is known: nothing was added. */
    add(
      key: number,
      row: ConversationRow | undefined,
      id: string,
      body: string,
    ): { run?: string } | undefined {
      const at = Date.now();
      const { changes, id: seq } = insertMessage.run(key, id, at);
      if (changes === 0) return undefined;
      insertInbox.run(key, seq, body);
      arrive.run(at, key);
      return row !== undefined && row.run !== null && heldForMs(row) > 0 ? { run: row.run } : {};
    },

    /** After the write. */
    tell(conversation: string, arrived: { run?: string } | undefined): void {
      if (arrived?.run !== undefined) signals.emit({ type: 'arrived', conversation, run: arrived.run });
    },
  };
}

export type Arrivals = ReturnType<typeof createArrivals>;
