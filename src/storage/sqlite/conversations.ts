// The conversation's row, which the embedded store, its reader and its control all look at; and what makes a lease live.
import type { Database } from './database.ts';

export interface ConversationRow {
  key: number;
  id: string;
  active_at: number;
  generation: number;
  epoch: number;
  run: string | null;
  run_generation: number;
  attempt: number;
  cancelled: number;
  taken: number;
  waiting: number;
  steps: number;
  holder: number;
  lease_until: number;
  length: number;
  context_from: number;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
}

interface Held {
  holder: number;
  lease_until: number;
}

/** A lease's clock: it never jumps, and ends with the process, as the leases do. */
const monotonicMs = (): number => Math.round(performance.now());

export function createConversations(db: Database) {
  const select = db.prepare<ConversationRow>('SELECT * FROM conversations WHERE id = ?');
  const insert = db.prepare('INSERT INTO conversations (id, active_at) VALUES (?, ?)');

  return {
    find: (id: string) => select.get(id),

    /** The key of the conversation, which is made if it is not there. For a write. */
    ensure(id: string, at: number): { key: number; row: ConversationRow | undefined } {
      const row = select.get(id);
      return { row, key: row?.key ?? insert.run(id, at).id };
    },

    /** Milliseconds for which the lease is live yet; 0 if it is not. */
    heldForMs: ({ holder, lease_until }: Held): number =>
      holder === db.opening ? Math.max(0, lease_until - monotonicMs()) : 0,

    /** Values of `holder` and `lease_until` for a lease from now on. */
    leaseFor: (leaseMs: number): [holder: number, leaseUntil: number] => [
      db.opening,
      monotonicMs() + Math.ceil(leaseMs),
    ],
  };
}

export type Conversations = ReturnType<typeof createConversations>;
