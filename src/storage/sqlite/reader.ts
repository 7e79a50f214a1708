// The embedded ConversationReader: what is committed, read at once.
import type { Reply } from '../../domain/delivery.ts';
import type { ConversationReader } from '../../ports/reader.ts';
import { readHistory } from '../formats.ts';
import type { Conversations } from './conversations.ts';
import type { Database } from './database.ts';

/** Conversations that the sweep gets at a time. */
const SWEEP_PAGE = 200;

/** A cursor's numbers, or undefined if it is none of ours. */
function numbers(cursor: string, count: number): number[] | undefined {
  const parts = cursor.split('.').map((part) => (/^\d{1,15}$/.test(part) ? Number(part) : Number.NaN));
  return parts.length === count && parts.every(Number.isFinite) ? parts : undefined;
}

export function createReader(db: Database, { find, heldForMs }: Conversations): ConversationReader {
  const historyPage = db.prepare<{ position: number; body: string }>(
    `SELECT position, body FROM history WHERE conversation = ? AND generation = ? AND position < ?
       ORDER BY position DESC LIMIT ?`,
  );
  const summary = db.prepare<{ text: string }>('SELECT text FROM summaries WHERE conversation = ?');
  const message = db.prepare<{
    seq: number;
    outcome: 'done' | 'failed' | null;
    run: string | null;
    reply: string | null;
  }>('SELECT seq, outcome, run, reply FROM messages WHERE conversation = ? AND id = ?');
  const byActivity = db.prepare<{ key: number; id: string; active_at: number }>(
    `SELECT key, id, active_at FROM conversations WHERE (active_at, key) < (?, ?)
       ORDER BY active_at DESC, key DESC LIMIT ?`,
  );
  // One step of the index a conversation, however much waits in it.
  const pending = {
    lanes: db.prepare<{ key: number; id: string }>(
      `SELECT key, id FROM conversations
         WHERE key = (SELECT min(conversation) FROM inbox WHERE conversation > ?)`,
    ),
    outbox: db.prepare<{ key: number; id: string }>(
      `SELECT key, id FROM conversations
         WHERE key = (SELECT min(conversation) FROM outbox WHERE parked = 0 AND conversation > ?)`,
    ),
  };

  return {
    history(conversation, { cursor, limit }) {
      return db.read(() => {
        const row = find(conversation);
        const [before] = cursor === undefined ? [row?.length ?? 0] : (numbers(cursor, 1) ?? []);
        if (row === undefined || before === undefined) return { items: [] };
        const rows = historyPage.all(row.key, row.generation, before, limit).reverse();
        const first = rows[0]?.position ?? 0;
        return {
          items: rows.map(({ body }) => readHistory(body)),
          ...(first > 0 && { cursor: String(first) }),
        };
      });
    },

    state(conversation) {
      return db.read(() => {
        const row = find(conversation);
        if (row === undefined) return { pending: 0, length: 0, usage: { input: 0, output: 0, cached: 0 } };
        const text = summary.get(row.key)?.text;
        return {
          pending: row.waiting,
          ...(row.run !== null && heldForMs(row) > 0 && { run: row.run }),
          ...(text !== undefined && { summary: text }),
          length: row.length,
          usage: { input: row.input_tokens, output: row.output_tokens, cached: row.cached_tokens },
        };
      });
    },

    status(conversation, messageId) {
      return db.read(() => {
        const row = find(conversation);
        const found = row && message.get(row.key, messageId);
        if (row === undefined || found === undefined) return undefined;
        if (found.outcome !== null)
          return {
            state: found.outcome,
            ...(found.reply !== null && { reply: JSON.parse(found.reply) as Reply }),
            ...(found.run !== null && { run: found.run }),
          };
        return row.run !== null && found.seq <= row.taken
          ? { state: 'running', run: row.run }
          : { state: 'queued' };
      });
    },

    list({ cursor, limit }) {
      return db.read(() => {
        const most = Number.MAX_SAFE_INTEGER;
        const [at, key] = cursor === undefined ? [most, most] : (numbers(cursor, 2) ?? []);
        if (at === undefined || key === undefined) return { items: [] };
        const rows = byActivity.all(at, key, limit + 1);
        const shown = rows.slice(0, limit);
        const last = shown.at(-1);
        return {
          items: shown.map((row) => ({ id: row.id, at: row.active_at })),
          ...(rows.length > limit && last !== undefined && { cursor: `${last.active_at}.${last.key}` }),
        };
      });
    },

    async *pending(kind) {
      let after = 0;
      for (;;) {
        const from = after;
        const page = await db.read(() => {
          const found: { key: number; id: string }[] = [];
          for (let next = pending[kind].get(from); next !== undefined; next = pending[kind].get(next.key)) {
            found.push(next);
            if (found.length === SWEEP_PAGE) break;
          }
          return found;
        });
        for (const { id } of page) yield id;
        const last = page.at(-1);
        if (last === undefined || page.length < SWEEP_PAGE) return;
        after = last.key;
      }
    },
  };
}
