// What keeps the file from growing for good: statuses beyond the dedupe window, histories that were reset, and
// conversations that were quiet for too long are deleted in small steps, between which everything else goes on.
import type { Logger } from '../../ports/log.ts';
import type { Database } from './database.ts';

export interface MaintenanceOptions {
  db: Database;
  dedupeMs: number;
  /** 0: for good. */
  historyTtlMs: number;
  log: Logger;
  everyMs?: number;
  /** Rows in a step. */
  stepRows?: number;
}

export interface Maintenance {
  /** Deletes all that is due now. */
  run(): Promise<void>;
  stop(): void;
}

/** Looks at up to a step's worth of rows; false: nothing is left to do. */
type Step = () => boolean;

export function createMaintenance({
  db,
  dedupeMs,
  historyTtlMs,
  log,
  everyMs = 600_000,
  stepRows = 200,
}: MaintenanceOptions): Maintenance {
  const messagesFrom = db.prepare<{ seq: number; at: number; outcome: string | null }>(
    'SELECT seq, at, outcome FROM messages WHERE seq > ? ORDER BY seq LIMIT ?',
  );
  const deleteMessage = db.prepare('DELETE FROM messages WHERE seq = ?');
  const deleteIndexed = db.prepare(
    `DELETE FROM message_index WHERE seq IN
       (SELECT seq FROM (SELECT seq, at FROM message_index ORDER BY seq LIMIT ?) WHERE at < ?)`,
  );
  const quiet = db.prepare<{ key: number; generation: number; active_at: number }>(
    `SELECT key, generation, active_at FROM conversations
       WHERE active_at < ? AND (active_at, key) > (?, ?) ORDER BY active_at, key LIMIT ?`,
  );
  const busy = db.prepare<{ found: number }>(
    `SELECT EXISTS (SELECT 1 FROM inbox WHERE conversation = ?1)
         OR EXISTS (SELECT 1 FROM outbox WHERE parked IN (0, 1) AND conversation = ?1) AS found`,
  );
  const discard = db.prepare('INSERT OR IGNORE INTO garbage (conversation, generation) VALUES (?, ?)');
  const deleteFailed = db.prepare(
    'DELETE FROM failed WHERE seq IN (SELECT seq FROM (SELECT seq, at FROM failed ORDER BY seq LIMIT ?) WHERE at < ?)',
  );
  const deleteNotes = db.prepare(
    'DELETE FROM notes WHERE seq IN (SELECT seq FROM (SELECT seq, at FROM notes ORDER BY seq LIMIT ?) WHERE at < ?)',
  );
  const deletePreference = db.prepare(
    'DELETE FROM preferences WHERE conversation = (SELECT id FROM conversations WHERE key = ?)',
  );
  const deleteSummary = db.prepare('DELETE FROM summaries WHERE conversation = ?');
  const deleteConversation = db.prepare('DELETE FROM conversations WHERE key = ?');
  const garbage = db.prepare<{ conversation: number; generation: number }>(
    'SELECT conversation, generation FROM garbage LIMIT 1',
  );
  const deleteEntries = db.prepare(
    `DELETE FROM history WHERE conversation = ?1 AND generation = ?2 AND position IN
       (SELECT position FROM history WHERE conversation = ?1 AND generation = ?2 ORDER BY position LIMIT ?3)`,
  );
  const forget = db.prepare('DELETE FROM garbage WHERE conversation = ? AND generation = ?');

  /** Rows are in the order of their time, but for those that still wait for an answer and stay. */
  const messages = (before: number): Step => {
    let from = 0;
    return () => {
      const rows = messagesFrom.all(from, stepRows);
      for (const { seq, at, outcome } of rows) {
        if (at >= before) return false;
        if (outcome !== null) deleteMessage.run(seq);
        from = seq;
      }
      return rows.length === stepRows;
    };
  };

  const indexed = (before: number): Step => {
    return () => deleteIndexed.run(stepRows, before).changes === stepRows;
  };

  const failed = (before: number): Step => {
    return () => deleteFailed.run(stepRows, before).changes === stepRows;
  };

  const notes = (before: number): Step => {
    return () => deleteNotes.run(stepRows, before).changes === stepRows;
  };

  const conversations = (before: number): Step => {
    let from = { active_at: 0, key: 0 };
    return () => {
      const rows = quiet.all(before, from.active_at, from.key, stepRows);
      for (const row of rows) {
        from = row;
        if (busy.get(row.key)?.found === 1) continue;
        discard.run(row.key, row.generation);
        deleteSummary.run(row.key);
        deletePreference.run(row.key);
        deleteConversation.run(row.key);
      }
      return rows.length === stepRows;
    };
  };

  const entries: Step = () => {
    const next = garbage.get();
    if (next === undefined) return false;
    const { changes } = deleteEntries.run(next.conversation, next.generation, stepRows);
    if (changes < stepRows) forget.run(next.conversation, next.generation);
    return true;
  };

  const stopping = new AbortController();

  async function run(): Promise<void> {
    const now = Date.now();
    const steps: Step[] = [messages, failed, indexed, notes].map((of) => of(now - dedupeMs));
    // Never before its statuses: they are found through the conversation.
    if (historyTtlMs > 0) steps.push(conversations(now - Math.max(historyTtlMs, dedupeMs)));
    steps.push(entries);
    for (const step of steps) while (!stopping.signal.aborted && (await db.write(step, { durable: false })));
  }

  const timer = setInterval(() => {
    run().catch((error: unknown) => {
      if (!stopping.signal.aborted)
        log.warn({ err: error }, 'Old data could not be deleted; it is tried again later.');
    });
  }, everyMs).unref();

  return {
    run,
    stop() {
      stopping.abort();
      clearInterval(timer);
    },
  };
}
