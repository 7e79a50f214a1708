// Redis storage: every port over one Redis, for any number of processes. Conversations are spread over 64 hash-tagged
// shards (keys.ts); what changes together is one Lua script (scripts/); lanes are BullMQ jobs (lanes.ts).
// Needs Redis 6.2 or later (or Valkey), with an append-only file and maxmemory-policy noeviction.
import type { Logger } from '../../ports/log.ts';
import type { Storage } from '../../ports/storage.ts';
import { createChannelStates } from './channel-state.ts';
import { createCheck } from './check.ts';
import { createConnections } from './connection.ts';
import { createControl } from './control.ts';
import { createEventLog } from './events.ts';
import { createLanes } from './lanes.ts';
import { createFailed } from './failed.ts';
import { createMessageIndex } from './message-index.ts';
import { createOperate, type RedisContext } from './operations.ts';
import { channelsOf } from './keys.ts';
import { createNotes } from './notes.ts';
import { createOutbox } from './outbox.ts';
import { createPeople } from './people.ts';
import { createPreferences } from './preferences.ts';
import { createReader } from './reader.ts';
import { reasonOf } from './reporter.ts';
import { loadScripts } from './scripts.ts';
import { createSpending } from './spending.ts';
import { createStore } from './store.ts';
import { createSubscriber } from './subscriber.ts';

export interface RedisStorageOptions {
  /** See address.ts for its forms. */
  url: string;
  /** PEM, for rediss. */
  tls?: { ca?: string; cert?: string; key?: string };
  log: Logger;
  /** How long a message id is remembered. */
  dedupeHours?: number;
  /** 0: histories are kept for good. */
  historyTtlDays?: number;
  /** How long a worker may be silent before another one takes over. */
  lockSeconds?: number;
  /** How long an operation waits for Redis before it rejects. */
  timeoutMs?: number;
  /** Run events kept per conversation, about, and for how long after the newest. */
  maxEvents?: number;
  keepEventsMs?: number;
}

const HOUR_MS = 3_600_000;

/** Resolves also while Redis is away, a little later: connecting goes on in the background, and check() says so. */
export async function createRedisStorage(options: RedisStorageOptions): Promise<Storage> {
  const { url, log, timeoutMs = 2_000 } = options;
  const dedupeMs = Math.ceil((options.dedupeHours ?? 48) * HOUR_MS);
  const historyTtlMs = Math.ceil((options.historyTtlDays ?? 0) * 24 * HOUR_MS);
  const lockMs = Math.ceil((options.lockSeconds ?? 30) * 1_000);

  const run = await loadScripts();
  const connections = createConnections({
    url,
    ...(options.tls ? { tls: options.tls } : {}),
    log,
    timeoutMs,
  });
  const context: RedisContext = {
    connections,
    operate: createOperate(connections, run),
    channels: channelsOf(connections.database),
  };
  const subscriber = createSubscriber(connections, log);
  const lanes = createLanes({ name: 'lanes', connections, lockMs, timeoutMs, log });
  const deliveries = createLanes({ name: 'deliveries', connections, lockMs, timeoutMs, log });

  const control = createControl(context, subscriber, { log });
  await Promise.all([control.attached, connections.call((client) => client.ping())]).catch(
    (error: unknown) => {
      log.warn(
        { reason: reasonOf(error) },
        'starting without Redis; everything goes on when it can be reached',
      );
    },
  );

  return {
    kind: 'redis',
    store: createStore(context, { dedupeMs, historyTtlMs }),
    reader: createReader(context),
    outbox: createOutbox(context),
    failed: createFailed(context, { dedupeMs }),
    index: createMessageIndex(context, { dedupeMs }),
    notes: createNotes(context, { dedupeMs }),
    people: createPeople(context),
    preferences: createPreferences(context, { historyTtlMs }),
    spending: createSpending(context),
    channelState: createChannelStates(context),
    events: createEventLog(context, subscriber, {
      maxEvents: options.maxEvents ?? 2_000,
      keepMs: options.keepEventsMs ?? 10 * 60_000,
      log,
    }),
    control,
    lanes,
    deliveries,
    check: createCheck(connections, log),
    async close() {
      await Promise.all([lanes.close(0), deliveries.close(0)]);
      await connections.close();
    },
  };
}
