// The embedded storage against the contract of its ports, on a real file.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Storage } from '../../src/ports/storage.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { silentLog } from '../fakes/log.ts';
import { storageContract } from './suites/all.ts';

const MAX_EVENTS = 200;

storageContract('sqlite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-contract-'));
  let storage: Promise<Storage> | undefined;
  return {
    shared: false,
    eventsKept: 2 * MAX_EVENTS,
    open() {
      storage ??= createSqliteStorage({
        file: join(folder, 'data', 'lanekeeper.db'),
        dedupeHours: 48,
        historyTtlDays: 0,
        log: silentLog,
        events: { maxEvents: MAX_EVENTS },
      });
      return storage;
    },
    async dispose() {
      const opened = await storage;
      await opened?.lanes.close(0);
      await opened?.deliveries.close(0);
      await opened?.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
});
