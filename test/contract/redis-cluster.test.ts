// The Redis storage against the contract of its ports, on a real Redis Cluster of three masters.
import { afterAll, beforeAll } from 'vitest';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { startRedisCluster, type RedisCluster } from '../fakes/redis-cluster.ts';
import { storageContract } from './suites/all.ts';
import { silentLog } from './suites/support.ts';

const MAX_EVENTS = 200;

let cluster: RedisCluster;

beforeAll(async () => {
  // Durability is not what is tested here.
  cluster = await startRedisCluster({ args: ['--appendfsync', 'everysec'] });
});

afterAll(() => cluster.close());

storageContract('redis cluster', async () => {
  await cluster.each((client) => client.flushall());
  const opened: Storage[] = [];
  return {
    shared: true,
    eventsKept: Math.ceil(MAX_EVENTS * 1.1),
    async open() {
      const storage = await createRedisStorage({ url: cluster.url, log: silentLog, maxEvents: MAX_EVENTS });
      opened.push(storage);
      return storage;
    },
    async dispose() {
      await Promise.all(
        opened.map(async (storage) => {
          await Promise.all([storage.lanes.close(0), storage.deliveries.close(0)]);
          await storage.close();
        }),
      );
    },
  };
});
