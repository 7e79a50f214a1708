// The storage backend that the configuration chooses; only the chosen one's libraries are loaded.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config/schema.ts';
import { AppError } from './domain/errors.ts';
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
  return createRedisStorage({
    ...common,
    url: storage.url,
    tls: readTls(storage.tls),
    lockSeconds: workers.lock_seconds,
  });
}

function readTls(files: Config['storage']['tls']): { ca?: string; cert?: string; key?: string } {
  const read: { ca?: string; cert?: string; key?: string } = {};
  for (const part of ['ca', 'cert', 'key'] as const) {
    const file = files[`${part}_file`];
    if (file === '') continue;
    try {
      read[part] = readFileSync(file, 'utf8');
    } catch (error) {
      throw new AppError('config_invalid', `storage.tls.${part}_file: ${file} can't be read`, {
        cause: error,
      });
    }
  }
  return read;
}
