// The Redis storage against the contract of its ports, on a real redis-server with an append-only file.
import { Redis } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { redisBacking } from './redis-backing.ts';
import { storageContract } from './suites/all.ts';

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
  return redisBacking(server.url);
});
