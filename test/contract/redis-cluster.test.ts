// The Redis storage against the contract of its ports, on a real Redis Cluster of three masters.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { conversationKeys, QUEUE_PREFIX } from '../../src/storage/redis/keys.ts';
import { silentLog } from '../fakes/log.ts';
import { startRedisCluster, type RedisCluster } from '../fakes/redis-cluster.ts';
import { closeStorage } from '../fakes/storage.ts';
import { redisBacking } from './redis-backing.ts';
import { storageContract } from './suites/all.ts';
import { collect, inbound, merge } from './suites/support.ts';

let cluster: RedisCluster;

beforeAll(async () => {
  // Durability is not what is tested here.
  cluster = await startRedisCluster({ args: ['--appendfsync', 'everysec'] });
});

afterAll(() => cluster.close());

storageContract('redis cluster', async () => {
  await cluster.each((client) => client.flushall());
  return redisBacking(cluster.url);
});

describe('slots that are moved while they are used', () => {
  it('are followed, by what is stored and by lanes', async () => {
    const storage = await createRedisStorage({ url: cluster.url, log: silentLog, timeoutMs: 1_000 });
    const name = 'acct:moved';
    const handled = new Set<string>();
    await storage.lanes.work(
      async (conversation) => {
        const claim = await storage.store.claim(conversation, { run: 'r', leaseMs: 60_000, limit: 1 });
        if (claim.status !== 'claimed') return 'idle';
        const done = await storage.store.commit(claim.lease, merge());
        for (const { id } of claim.snapshot.inbox) handled.add(id);
        return done && done.more ? 'more' : 'idle';
      },
      { concurrency: 1 },
    );
    const sending = new AbortController();
    const accepted: string[] = [];
    const sender = (async () => {
      for (let n = 0; !sending.signal.aborted; n += 1) {
        const id = `m${n}`;
        for (;;) {
          try {
            await storage.store.append(inbound(name, id));
            await storage.lanes.wake(name);
            break;
          } catch (error) {
            // As a platform does: the same message until it is taken.
            expect(error).toMatchObject({ code: 'storage_unavailable' });
          }
        }
        accepted.push(id);
      }
    })();
    for (const key of [conversationKeys(name).meta, `${QUEUE_PREFIX}:lanes`]) {
      const before = handled.size;
      await vi.waitFor(() => expect(handled.size).toBeGreaterThan(before + 5), { timeout: 20_000 });
      await cluster.move(key);
    }
    const before = handled.size;
    await vi.waitFor(() => expect(handled.size).toBeGreaterThan(before + 5), { timeout: 20_000 });
    sending.abort();
    await sender;
    for (const conversation of await collect(storage.reader.pending('lanes')))
      await storage.lanes.wake(conversation);
    await vi.waitFor(() => expect([...handled].sort()).toEqual(accepted.toSorted()), { timeout: 20_000 });
    await storage.check();
    await closeStorage(storage);
  });
});

describe('a node that says nothing', () => {
  it('holds up its own conversations only, and nothing when it speaks again', async () => {
    const storage = await createRedisStorage({ url: cluster.url, log: silentLog, timeoutMs: 500 });
    await storage.check();
    const silent = cluster.masters[0]!;
    const names = Array.from({ length: 24 }, (_, n) => `acct:${n}`);
    const append = (id: string) =>
      Promise.all(
        names.map((name) =>
          storage.store.append(inbound(name, id)).then(
            () => true,
            (error: unknown) => {
              expect(error).toMatchObject({ code: 'storage_unavailable' });
              return false;
            },
          ),
        ),
      );
    process.kill(silent.pid(), 'SIGSTOP');
    try {
      const first = await append('m1');
      expect(new Set(first)).toEqual(new Set([true, false]));
      // Those of the other nodes go on, however often the silent one is asked.
      for (const id of ['m2', 'm3']) expect(await append(id)).toEqual(first);
      await expect(storage.check()).rejects.toMatchObject({ code: 'storage_unavailable' });
    } finally {
      process.kill(silent.pid(), 'SIGCONT');
    }
    await vi.waitFor(() => storage.check(), { timeout: 20_000 });
    expect(await append('m4')).toEqual(names.map(() => true));
    await storage.close();
  });
});
