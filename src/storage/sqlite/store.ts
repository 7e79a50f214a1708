// The embedded ConversationStore: inbox → claim → journal → commit, each operation one savepoint of a shared transaction.
//
// Which messages a run has taken is one number in the conversation's row: inbox entries up to `taken` are the
// run's. So claim and drain write that row only, whatever the size of the messages.
import type { InboundMessage } from '../../domain/inbound.ts';
import { joins } from '../../domain/inbound.ts';
import type { ConversationStore, JournalEntry, Lease, Merge, Snapshot } from '../../ports/store.ts';
import { readJoining, readSnapshot } from '../formats.ts';
import type { Arrivals } from './arrivals.ts';
import type { Signals } from './control.ts';
import type { ConversationRow, Conversations } from './conversations.ts';
import type { Database } from './database.ts';

interface InboxRow {
  seq: number;
  body: string;
}
interface Body {
  body: string;
}

const bodiesOf = (rows: readonly Body[]): string[] => rows.map(({ body }) => body);

/** All else that a power cut takes from a journal is done again, which is harmless or costs a model call. */
const mustOutliveThePower = (entry: JournalEntry): boolean =>
  entry.kind === 'tool_start' && entry.idempotent !== true;

export function createStore(
  db: Database,
  conversations: Conversations,
  arrivals: Arrivals,
  signals: Signals,
): ConversationStore {
  const { find, ensure, heldForMs, leaseFor } = conversations;

  const known = db.prepare<{ seq: number }>('SELECT seq FROM messages WHERE conversation = ? AND id = ?');
  const waiting = db.prepare<InboxRow>(
    'SELECT seq, body FROM inbox WHERE conversation = ? AND seq > ? ORDER BY seq LIMIT ?',
  );
  const takenMessages = db.prepare<Body>(
    'SELECT body FROM inbox WHERE conversation = ? AND seq <= ? ORDER BY seq',
  );
  const journaled = db.prepare<Body>('SELECT body FROM journal WHERE conversation = ? ORDER BY step');
  const context = db.prepare<Body>(
    'SELECT body FROM history WHERE conversation = ? AND generation = ? AND position >= ? ORDER BY position',
  );
  const summary = db.prepare<{ text: string }>('SELECT text FROM summaries WHERE conversation = ?');

  const start = db.prepare(
    `UPDATE conversations SET run = ?, run_generation = generation, attempt = 1, cancelled = 0, taken = ?, steps = 0,
       epoch = epoch + 1, holder = ?, lease_until = ? WHERE key = ?`,
  );
  const resume = db.prepare(
    'UPDATE conversations SET attempt = attempt + 1, epoch = epoch + 1, holder = ?, lease_until = ? WHERE key = ?',
  );
  const extend = db.prepare('UPDATE conversations SET holder = ?, lease_until = ? WHERE key = ?');
  // The epoch rises here as well: the lease that was given back is stale at once.
  const giveBack = db.prepare(
    'UPDATE conversations SET attempt = attempt - 1, epoch = epoch + 1, holder = 0, lease_until = 0 WHERE key = ?',
  );
  const take = db.prepare('UPDATE conversations SET taken = ? WHERE key = ?');

  const insertStep = db.prepare('INSERT INTO journal (conversation, step, body) VALUES (?, ?, ?)');
  const countSteps = db.prepare('UPDATE conversations SET steps = ? WHERE key = ?');
  const clearJournal = db.prepare('DELETE FROM journal WHERE conversation = ?');

  const insertEntry = db.prepare(
    'INSERT INTO history (conversation, generation, position, body) VALUES (?, ?, ?, ?)',
  );
  const setSummary = db.prepare('INSERT OR REPLACE INTO summaries (conversation, text) VALUES (?, ?)');
  const clearSummary = db.prepare('DELETE FROM summaries WHERE conversation = ?');
  const answer = db.prepare(
    `UPDATE messages SET outcome = ?, run = ?, reply = ?
       WHERE seq IN (SELECT seq FROM inbox WHERE conversation = ? AND seq <= ?)`,
  );
  const keepFailed = db.prepare(
    `INSERT OR REPLACE INTO failed (conversation, id, at, run, error, body)
       SELECT inbox.conversation, messages.id, ?, ?, ?, inbox.body FROM inbox JOIN messages ON messages.seq = inbox.seq
       WHERE inbox.conversation = ? AND inbox.seq <= ? ORDER BY inbox.seq`,
  );
  const consume = db.prepare('DELETE FROM inbox WHERE conversation = ? AND seq <= ?');
  const insertDelivery = db.prepare('INSERT INTO outbox (conversation, id, body) VALUES (?, ?, ?)');
  const finish = db.prepare(
    `UPDATE conversations SET run = NULL, attempt = 0, cancelled = 0, taken = 0, steps = 0, holder = 0, lease_until = 0,
       waiting = waiting - ?, active_at = ?, length = ?, context_from = ?, input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,
       cached_tokens = cached_tokens + ? WHERE key = ?`,
  );

  const discard = db.prepare('INSERT OR IGNORE INTO garbage (conversation, generation) VALUES (?, ?)');
  const startOver = db.prepare(
    `UPDATE conversations SET generation = generation + 1, length = 0, context_from = 0, steps = 0,
       cancelled = (run IS NOT NULL), active_at = ? WHERE key = ?`,
  );

  /** The conversation, if the lease is the one that was given last and is not over. */
  const held = (lease: Lease): ConversationRow | undefined => {
    const row = find(lease.conversation);
    return row !== undefined && row.run === lease.run && row.epoch === lease.epoch ? row : undefined;
  };

  /** The waiting messages, oldest first, up to the first that may not join those before it. */
  const joinable = (key: number, after: number, limit: number, takeFirst: boolean) => {
    const bodies: string[] = [];
    let last = after;
    for (const { seq, body } of waiting.all(key, after, limit)) {
      const message = JSON.parse(body) as InboundMessage;
      if (!joins(message) && !(takeFirst && bodies.length === 0)) break;
      bodies.push(body);
      last = seq;
    }
    return { bodies, last };
  };

  const snapshotOf = (
    row: ConversationRow,
    inbox: string[],
    journal: string[],
  ): Snapshot | { newer: number } => {
    const entries = bodiesOf(context.all(row.key, row.generation, row.context_from));
    const read = readSnapshot({ context: entries, inbox, journal });
    if ('newer' in read) return read;
    const text = summary.get(row.key)?.text;
    return {
      ...read,
      contextFrom: row.context_from,
      ...(text !== undefined && { summary: text }),
      attempt: row.attempt,
      cancelled: row.cancelled === 1,
    };
  };

  /** Appends the run's entries; gives the new length and where the context starts. */
  const mergeHistory = (row: ConversationRow, { entries, context: moved }: Merge): [number, number] => {
    for (const [n, entry] of entries.entries())
      insertEntry.run(row.key, row.generation, row.length + n, JSON.stringify(entry));
    if (moved?.summary !== undefined) setSummary.run(row.key, moved.summary);
    else if (moved !== undefined) clearSummary.run(row.key);
    return [row.length + entries.length, moved?.from ?? row.context_from];
  };

  return {
    async append(message, { maxWaiting = 0 } = {}) {
      const { conversation, id } = message;
      const arrived = await db.write(() => {
        const { key, row } = ensure(conversation, Date.now());
        if (maxWaiting > 0 && row !== undefined && row.waiting >= maxWaiting && !known.get(key, id))
          return 'full';
        return arrivals.add(key, row, id, JSON.stringify(message));
      });
      if (arrived === 'full') return { duplicate: false, full: true };
      arrivals.tell(conversation, arrived);
      return { duplicate: arrived === undefined };
    },

    claim(conversation, { run, leaseMs, limit }) {
      return db.write(
        () => {
          const before = find(conversation);
          if (before === undefined) return { status: 'empty' };
          const forMs = heldForMs(before);
          if (before.run !== null && forMs > 0) return { status: 'held', forMs };

          const { key } = before;
          let inbox: string[];
          let journal: string[] = [];
          if (before.run === null) {
            const { bodies, last } = joinable(key, 0, limit, true);
            if (bodies.length === 0) return { status: 'empty' };
            start.run(run, last, ...leaseFor(leaseMs), key);
            inbox = bodies;
          } else {
            resume.run(...leaseFor(leaseMs), key);
            inbox = bodiesOf(takenMessages.all(key, before.taken));
            journal = bodiesOf(journaled.all(key));
            if (journal.length === 0 && before.cancelled === 0) {
              const room = Math.max(0, limit - inbox.length);
              const { bodies, last } = joinable(key, before.taken, room, false);
              if (bodies.length > 0) take.run(last, key);
              inbox.push(...bodies);
            }
          }
          const row = find(conversation) ?? before;
          const snapshot = snapshotOf(row, inbox, journal);
          if ('newer' in snapshot) {
            giveBack.run(key);
            return { status: 'newer', version: snapshot.newer };
          }
          return {
            status: 'claimed',
            lease: {
              conversation,
              run: row.run ?? run,
              epoch: row.epoch,
              generation: row.run_generation,
            },
            snapshot,
          };
        },
        { durable: false },
      );
    },

    renew(lease, leaseMs) {
      return db.write(
        () => {
          const row = held(lease);
          if (row === undefined) return undefined;
          extend.run(...leaseFor(leaseMs), row.key);
          return { cancelled: row.cancelled === 1 };
        },
        { durable: false },
      );
    },

    release(lease) {
      return db.write(
        () => {
          const row = held(lease);
          if (row === undefined) return false;
          giveBack.run(row.key);
          return true;
        },
        { durable: false },
      );
    },

    journal(lease, entries) {
      return db.write(
        () => {
          const row = held(lease);
          if (row === undefined) return false;
          for (const [n, entry] of entries.entries())
            insertStep.run(row.key, row.steps + n, JSON.stringify(entry));
          countSteps.run(row.steps + entries.length, row.key);
          return true;
        },
        { durable: entries.some(mustOutliveThePower) },
      );
    },

    drain(lease, limit) {
      return db.write(
        () => {
          const row = held(lease);
          if (row === undefined) return undefined;
          const { bodies, last } = joinable(row.key, row.taken, limit, false);
          if (bodies.length > 0) take.run(last, row.key);
          const messages = readJoining(bodies);
          if (messages === undefined) giveBack.run(row.key);
          return messages;
        },
        { durable: false },
      );
    },

    commit(lease, merge) {
      return db.write(() => {
        const row = held(lease);
        if (row === undefined) return false;
        const { key, taken } = row;
        const [length, contextFrom] =
          row.run_generation === row.generation ? mergeHistory(row, merge) : [row.length, row.context_from];
        const { outcome, usage } = merge;
        answer.run(outcome.status, lease.run, JSON.stringify(outcome.reply), key, taken);
        if (outcome.status === 'failed')
          keepFailed.run(Date.now(), lease.run, outcome.error ?? '', key, taken);
        const consumed = consume.run(key, taken).changes;
        for (const delivery of merge.deliveries)
          insertDelivery.run(key, delivery.id, JSON.stringify(delivery));
        clearJournal.run(key);
        finish.run(
          consumed,
          Date.now(),
          length,
          contextFrom,
          usage?.input ?? 0,
          usage?.output ?? 0,
          usage?.cached ?? 0,
          key,
        );
        return { more: row.waiting > consumed };
      });
    },

    async reset(conversation) {
      const run = await db.write(() => {
        const row = find(conversation);
        if (row === undefined) return undefined;
        if (row.length > 0) discard.run(row.key, row.generation);
        clearJournal.run(row.key);
        clearSummary.run(row.key);
        startOver.run(Date.now(), row.key);
        return row.run ?? undefined;
      });
      if (run === undefined) return {};
      signals.emit({ type: 'cancel', conversation, run });
      return { cancelledRun: run };
    },
  };
}
