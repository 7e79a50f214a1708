// Storage.check() on Redis: a write and a read, and once a look at the settings that the promises depend on.
import { randomUUID } from 'node:crypto';
import type { Logger } from '../../ports/log.ts';
import { unavailable } from './caller.ts';
import type { Connections } from './connection.ts';

const KEY = 'lk:{s0}:check';

export function createCheck({ call, address }: Connections, log: Logger): () => Promise<void> {
  let looked = false;

  async function look(): Promise<void> {
    const info = await call(
      async (client) => `${await client.info('memory')}\n${await client.info('persistence')}`,
    );
    looked = true;
    const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
    if (policy !== undefined && policy !== 'noeviction') {
      log.warn(
        { policy },
        'Redis may evict conversations when it is full: set maxmemory-policy to noeviction',
      );
    }
    if (/^aof_enabled:0/m.test(info)) {
      log.warn(
        {},
        'Redis loses acknowledged messages when it crashes: set appendonly to yes, appendfsync to always',
      );
    } else await lookAtFsync();
  }

  async function lookAtFsync(): Promise<void> {
    // Hosted services may not let anybody ask.
    const [, fsync] = await call(async (client) => {
      const reply: unknown = await client.config('GET', 'appendfsync');
      return Array.isArray(reply) ? reply : [];
    }).catch(() => []);
    if (fsync === 'no') {
      log.warn(
        { appendfsync: fsync },
        'Redis loses acknowledged messages when its machine crashes: set appendfsync to always, or to everysec',
      );
    } else if (fsync === 'everysec') {
      log.info(
        { appendfsync: fsync },
        "Redis may lose a second's acknowledged messages when its machine crashes; appendfsync always keeps all",
      );
    }
  }

  return async () => {
    const written = randomUUID();
    const read = await call(async (client) => {
      await client.set(KEY, written, 'PX', 60_000);
      return client.get(KEY);
    });
    // Another process may check at the same time: any value will do.
    if (read === null) throw unavailable(`Redis at ${address} does not keep what is written to it`);
    if (!looked) await look();
  };
}
