// The embedded storage on a file of its own, and how any storage is closed.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Storage } from '../../src/ports/storage.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import type { Cleanups } from './cleanups.ts';
import { silentLog } from './log.ts';

export async function openTestStorage(later: Cleanups['later']): Promise<Storage> {
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-storage-'));
  later(() => rm(folder, { recursive: true }));
  const file = join(folder, 'test.db');
  const storage = await createSqliteStorage({ file, dedupeHours: 48, historyTtlDays: 0, log: silentLog });
  later(() => closeStorage(storage));
  return storage;
}

/** Lanes first, as the server does it; what they are at is aborted. */
export async function closeStorage(storage: Storage): Promise<void> {
  await Promise.all([storage.lanes.close(0), storage.deliveries.close(0)]);
  await storage.close();
}
