// The Redis storage against the contract of its ports, on a real redis-server with an append-only file.
import { Redis } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { storageContract } from './suites/all.ts';
import { silentLog } from './suites/support.ts';

const MAX_EVENTS = 200;

let server: RedisServer;
let admin: Redis;

beforeAll(async () => {
  server = await startRedis();
  admin = new Redis(server.url);
});

afterAll(async () => {
  admin.disconnect();
  await server.close();
});

storageContract('redis', async () => {
  await admin.flushall();
  const opened: Storage[] = [];
  return {
    shared: true,
    eventsKept: Math.ceil(MAX_EVENTS * 1.1),
    async open() {
      const storage = await createRedisStorage({ url: server.url, log: silentLog, maxEvents: MAX_EVENTS });
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
