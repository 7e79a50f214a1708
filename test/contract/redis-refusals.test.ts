// What Redis answers while it can't work: a replica, a server that still loads, a cluster with a hole. Each is
// storage_unavailable to the caller, and the storage goes on by itself when it is over.
import { Redis } from 'ioredis';
import { expect, it, vi } from 'vitest';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';
import { freePort, startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { closeStorage } from '../fakes/storage.ts';
import { inbound } from './suites/support.ts';

const PATIENCE = { timeout: 20_000, interval: 20 };
const { later, track } = useCleanups();

async function open(server: RedisServer, url = server.url): Promise<{ storage: Storage; admin: Redis }> {
  const admin = new Redis(server.url, { retryStrategy: () => 50, enableReadyCheck: false });
  admin.on('error', () => admin.status);
  later(() => admin.disconnect());
  const storage = await createRedisStorage({ url, log: silentLog, lockSeconds: 2, timeoutMs: 1_000 });
  later(() => closeStorage(storage));
  return { storage, admin };
}

let sent = 0;
const append = (storage: Storage) => storage.store.append(inbound('acct:a', `m${(sent += 1)}`));
const refused = async (storage: Storage, text: string) => {
  const [write, check] = await Promise.allSettled([append(storage), storage.check()]);
  for (const result of [write, check]) {
    expect(result).toMatchObject({
      status: 'rejected',
      reason: { code: 'storage_unavailable', retryAfterMs: 1_000, message: expect.stringContaining(text) },
    });
  }
};
const works = (storage: Storage) =>
  vi.waitFor(async () => {
    await storage.check();
    expect(await append(storage)).toEqual({ duplicate: false });
  }, PATIENCE);

it('READONLY, MASTERDOWN, NOREPLICAS, NOSCRIPT: refused with what to do, and then it goes on', async () => {
  const { storage, admin } = await open(
    track(await startRedis({ args: ['--replica-serve-stale-data', 'no'] })),
  );
  const seen: string[] = [];
  await storage.lanes.work(
    async (conversation) => {
      seen.push(conversation);
      return 'idle';
    },
    { concurrency: 1 },
  );
  await works(storage);
  await admin.script('FLUSH');
  await append(storage);

  await admin.config('SET', 'min-replicas-to-write', 1);
  await refused(storage, 'NOREPLICAS: min-replicas-to-write');
  await admin.config('SET', 'min-replicas-to-write', 0);
  await works(storage);

  await admin.replicaof('127.0.0.1', await freePort());
  await expect(append(storage)).rejects.toThrow('MASTERDOWN: it is a replica without its primary');
  await admin.config('SET', 'replica-serve-stale-data', 'yes');
  await expect(append(storage)).rejects.toThrow('READONLY: it is a replica');
  await expect(storage.lanes.wake('acct:a')).rejects.toMatchObject({ code: 'storage_unavailable' });
  await admin.replicaof('NO', 'ONE');
  await works(storage);
  await vi.waitFor(() => storage.lanes.wake('acct:a'), PATIENCE);
  await vi.waitFor(() => expect(seen).toContain('acct:a'), PATIENCE);
});

it('LOADING: refused while it reads its data', async () => {
  const server = track(await startRedis());
  const { storage, admin } = await open(server, server.url);
  await works(storage);
  await Promise.all(Array.from({ length: 4_100 }, (_, n) => admin.set(`filler${n}`, 'x')));
  await server.stop('SIGKILL');
  // It answers while it loads once in 1,024 commands.
  const starting = server.start(['--key-load-delay', '300']);
  await vi.waitFor(async () => {
    const outcome = await append(storage).catch((error: unknown) => error);
    // Still, so that it did when it was asked to append.
    expect(await admin.info('persistence')).toContain('loading:1');
    expect(outcome).toMatchObject({ code: 'storage_unavailable' });
  }, PATIENCE);
  await starting;
  await works(storage);
});

it('CLUSTERDOWN and MOVED: refused while slots are served by nobody, or with the wrong kind of URL', async () => {
  const server = track(await startRedis({ cluster: true }));
  const { storage, admin } = await open(server, server.url.replace('redis:', 'redis-cluster:'));
  await works(storage);
  const last = 16_383;
  await admin.call('CLUSTER', 'DELSLOTSRANGE', last, last);
  await vi.waitFor(() => refused(storage, 'CLUSTERDOWN: the Redis Cluster has lost nodes'), PATIENCE);
  await admin.config('SET', 'cluster-require-full-coverage', 'no');
  await vi.waitFor(async () => {
    expect(await append(storage)).toEqual({ duplicate: false });
    await expect(storage.check()).rejects.toThrow(/serves 16383 of its 16384 hash slots/);
  }, PATIENCE);
  await admin.call('CLUSTER', 'ADDSLOTSRANGE', last, last);
  await works(storage);
});
