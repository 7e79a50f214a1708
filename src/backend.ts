// The storage backend that the configuration chooses; only the chosen one's libraries are loaded.
import { join } from 'node:path';
import type { Config } from '../config/schema.ts';
import type { Logger } from './ports/log.ts';
import type { Storage } from './ports/storage.ts';

export async function openStorage({ storage, workers }: Config, log: Logger): Promise<Storage> {
  const common = {
    dedupeHours: storage.dedupe_hours,
    historyTtlDays: storage.history_ttl_days,
    log,
  };
  if (storage.url === '') {
    const { createSqliteStorage } = await import('./storage/sqlite/index.ts');
    return createSqliteStorage({ ...common, file: join(storage.data_dir, 'lanekeeper.db') });
  }
  const { createRedisStorage } = await import('./storage/redis/index.ts');
  return createRedisStorage({ ...common, url: storage.url, lockSeconds: workers.lock_seconds });
}
