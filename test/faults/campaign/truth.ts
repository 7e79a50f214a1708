// What the storage holds, read past the server's own code: histories, and everything that should be gone when all is quiet.
import { DatabaseSync } from 'node:sqlite';
import { Redis } from 'ioredis';
import type { HistoryEntry } from '../../../src/domain/messages.ts';
import { conversationKeys } from '../../../src/storage/redis/keys.ts';
import { ADMIN_TOKEN } from '../../fakes/server.ts';
import type { Supervised } from './process.ts';

export interface Reading {
  histories: Map<string, HistoryEntry[]>;
  /** Names of what is left: inboxes, journals, outboxes, jobs. */
  leftovers: string[];
}

export interface Truth {
  /** True if nothing waits and nothing runs. */
  quiet(conversations: readonly string[]): Promise<boolean>;
  read(conversations: readonly string[]): Promise<Reading>;
  /** Redis: takes no command for so long. */
  pause(forMs: number): Promise<void>;
  close(): Promise<void>;
}

const LEFT_IN_STORE = /^lk:\{s\d+\}:(inbox|journal|outbox|pending|outboxes|parked|parked-at)(:|$)/;
/** What BullMQ keeps of an idle queue. */
const IDLE_QUEUE = /^\{lk\}:(lanes|deliveries):(meta|id|events|marker|stalled-check|metrics:.*)$/;

export function openRedisTruth(url: string): Truth {
  const client = new Redis(url, { maxRetriesPerRequest: null });
  client.on('error', () => undefined);

  async function leftovers(): Promise<string[]> {
    const left = new Set<string>();
    let cursor = '0';
    do {
      const [next, keys] = await client.scan(cursor, 'COUNT', 5_000);
      cursor = next;
      for (const key of keys)
        if (LEFT_IN_STORE.test(key) || (key.startsWith('{lk}:') && !IDLE_QUEUE.test(key))) left.add(key);
    } while (cursor !== '0');
    return [...left].sort();
  }

  return {
    quiet: async () => (await leftovers()).length === 0,
    async read(conversations) {
      const histories = new Map<string, HistoryEntry[]>();
      for (const conversation of conversations) {
        const entries = await client.lrange(conversationKeys(conversation).history, 0, -1);
        histories.set(
          conversation,
          entries.map((entry) => JSON.parse(entry) as HistoryEntry),
        );
      }
      return { histories, leftovers: await leftovers() };
    },
    async pause(forMs) {
      await client.client('PAUSE', forMs, 'ALL');
    },
    async close() {
      client.disconnect();
    },
  };
}

/** The file belongs to its process: it is killed, read, and started again. */
export function openSqliteTruth(server: Supervised, file: string): Truth {
  async function get(path: string): Promise<{ items?: unknown[]; pending?: number }> {
    const url = server.current()?.url;
    if (url === undefined) throw new Error('the server is down');
    const response = await fetch(`${url}/api/${path}`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      signal: AbortSignal.timeout(2_000),
    });
    return (await response.json()) as { items?: unknown[]; pending?: number };
  }

  return {
    async quiet(conversations) {
      for (const state of ['pending', 'parked']) {
        if ((await get(`deliveries?state=${state}&limit=1`)).items?.length !== 0) return false;
      }
      for (const conversation of conversations) {
        if ((await get(`conversations/${encodeURIComponent(conversation)}?limit=1`)).pending !== 0)
          return false;
      }
      return true;
    },
    async read(conversations) {
      await server.hold();
      const db = new DatabaseSync(file);
      try {
        const leftovers = ['inbox', 'journal', 'outbox'].flatMap((table) => {
          const row = db.prepare(`SELECT count(*) AS n FROM ${table}`).get();
          return row?.['n'] === 0 ? [] : [`${table}: ${String(row?.['n'])} rows`];
        });
        const select = db.prepare(
          `SELECT history.body FROM history JOIN conversations ON conversations.key = history.conversation
             AND conversations.generation = history.generation WHERE conversations.id = ? ORDER BY position`,
        );
        const histories = new Map(
          conversations.map((id) => [
            id,
            select.all(id).map((row) => JSON.parse(String(row['body'])) as HistoryEntry),
          ]),
        );
        return { histories, leftovers };
      } finally {
        db.close();
        server.release();
      }
    },
    async pause() {
      throw new Error('embedded storage cannot be paused');
    },
    async close() {
      // Nothing is kept open.
    },
  };
}
