// Embedded storage: every port on one SQLite file and this process's memory. One process at a time may have it open;
// nothing needs to be installed.
import type { Logger } from '../../ports/log.ts';
import type { Storage } from '../../ports/storage.ts';
import { createChannelStates } from './channel-state.ts';
import { createArrivals } from './arrivals.ts';
import { createControl, createSignals } from './control.ts';
import { createConversations } from './conversations.ts';
import { openDatabase } from './database.ts';
import { createLocalEvents } from './events.ts';
import type { EventLogOptions } from './events.ts';
import { createFailed } from './failed.ts';
import { createLocalLanes } from './lanes.ts';
import { createMaintenance } from './maintenance.ts';
import { createMessageIndex } from './message-index.ts';
import { createNotes } from './notes.ts';
import { createOutbox } from './outbox.ts';
import { createPeople } from './people.ts';
import { createPreferences } from './preferences.ts';
import { createReader } from './reader.ts';
import { createSpending } from './spending.ts';
import { createStore } from './store.ts';

export interface SqliteStorageOptions {
  /** The database file; its folder is made if it is not there. */
  file: string;
  /** Statuses of messages, and the index of their ids, are kept at least this long. */
  dedupeHours: number;
  /** Conversations that were quiet for longer are deleted; 0: none. Never sooner than dedupeHours. */
  historyTtlDays: number;
  log: Logger;
  /** How long to wait for another process that has the file open. */
  lockWaitMs?: number;
  events?: EventLogOptions;
}

const HOUR_MS = 3_600_000;

/** Rejects with AppError 'storage_unavailable', which says what to do, if the file cannot be opened or is in use. */
export async function createSqliteStorage(options: SqliteStorageOptions): Promise<Storage> {
  const { file, log, lockWaitMs } = options;
  const db = openDatabase({ file, ...(lockWaitMs !== undefined && { lockWaitMs }) });
  const conversations = createConversations(db);
  const signals = createSignals(log);
  const arrivals = createArrivals(db, conversations, signals);
  const events = createLocalEvents(options.events);
  const lanes = createLocalLanes({ log });
  const deliveries = createLocalLanes({ log });
  const maintenance = createMaintenance({
    db,
    dedupeMs: options.dedupeHours * HOUR_MS,
    historyTtlMs: options.historyTtlDays * 24 * HOUR_MS,
    log,
  });
  const touch = db.prepare('UPDATE openings SET checked_at = ?');

  return {
    kind: 'sqlite',
    store: createStore(db, conversations, arrivals, signals),
    reader: createReader(db, conversations),
    outbox: createOutbox(db, conversations),
    failed: createFailed(db, conversations, arrivals),
    index: createMessageIndex(db),
    notes: createNotes(db),
    people: createPeople(db),
    preferences: createPreferences(db),
    spending: createSpending(db),
    channelState: createChannelStates(db),
    events,
    control: createControl(db, conversations, signals),
    lanes,
    deliveries,

    // A write, since a full disk can still be read.
    async check() {
      await db.write(() => touch.run(Date.now()));
    },

    async close() {
      maintenance.stop();
      await lanes.close(0);
      await deliveries.close(0);
      events.close();
      db.close();
    },
  };
}
