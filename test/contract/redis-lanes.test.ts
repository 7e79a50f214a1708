// Lanes on Redis over several processes: one handler a conversation, no wake lost, and what happens to a worker that is
// killed, stopped or blocked for longer than its lock.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { silentLog } from '../fakes/log.ts';
import { startLaneWorker, type LaneEvent, type LaneWorker } from '../fakes/redis-lane-worker.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';

const LOCK_SECONDS = 1;
const LOCK_MS = LOCK_SECONDS * 1_000;
/** Half the lock, see lanes.ts. */
const STALLED_CHECK_MS = LOCK_MS / 2;
const PATIENCE = { timeout: 20_000, interval: 20 };
/** What a queue leaves behind, however many conversations it had. */
const QUEUE_KEYS = ['events', 'id', 'marker', 'meta', 'stalled-check'];

describe('lanes on Redis', () => {
  let server: RedisServer;
  let redis: Redis;
  let storage: Storage;
  const workers: LaneWorker[] = [];

  beforeEach(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
    storage = await createRedisStorage({ url: server.url, log: silentLog, lockSeconds: LOCK_SECONDS });
  });
  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.close()));
    await storage.close();
    redis.disconnect();
    await server.close();
  });

  const startWorker = async (): Promise<LaneWorker> => {
    const worker = await startLaneWorker(server.url, LOCK_SECONDS);
    workers.push(worker);
    return worker;
  };
  const seen = (worker: LaneWorker, event: LaneEvent) =>
    vi.waitFor(() => expect(worker.events).toContainEqual(event), PATIENCE);
  const idle = () =>
    vi.waitFor(
      async () => expect(await storage.lanes.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }),
      PATIENCE,
    );
  const queueKeys = async () =>
    (await redis.keys('{lk}:lanes:*')).map((key) => key.slice('{lk}:lanes:'.length)).sort();

  it("put a job off by Redis' clock: another worker takes it in time from one whose clock was ahead", async () => {
    const entered = Promise.withResolvers<void>();
    const outcome = Promise.withResolvers<{ retryInMs: number }>();
    await storage.lanes.work(
      () => {
        entered.resolve();
        return outcome.promise;
      },
      { concurrency: 1 },
    );
    await storage.lanes.wake('acct:a');
    await entered.promise;
    const realNow = Date.now;
    const ahead = vi.spyOn(Date, 'now').mockImplementation(() => realNow() + 3_600_000);
    try {
      // Closing, so that this worker doesn't take the job again itself.
      const closed = storage.lanes.close(5_000);
      outcome.resolve({ retryInMs: 300 });
      await closed;
    } finally {
      ahead.mockRestore();
    }
    const other = await createRedisStorage({ url: server.url, log: silentLog, lockSeconds: LOCK_SECONDS });
    try {
      const taken: string[] = [];
      await other.lanes.work(
        (conversation) => {
          taken.push(conversation);
          return Promise.resolve('idle');
        },
        { concurrency: 1 },
      );
      await vi.waitFor(() => expect(taken).toEqual(['acct:a']), { timeout: 10_000, interval: 20 });
    } finally {
      await other.lanes.close(1_000);
      await other.close();
    }
  });

  it('run one handler a conversation and lose no wake, under load in two processes; idle, no keys are left', async () => {
    await Promise.all([startWorker(), startWorker()]);
    const names = Array.from({ length: 20 }, (_, n) => `count:${n}`);
    const rounds = 30;
    for (let round = 1; round <= rounds; round += 1) {
      await Promise.all(
        names.map(async (name) => {
          await redis.set(`test:wanted:${name}`, round);
          await storage.lanes.wake(name);
        }),
      );
    }
    // What was wanted last was seen by a run that started after it: the last wake was not swallowed by a run before it.
    await vi.waitFor(async () => {
      const done = await redis.mget(names.map((name) => `test:done:${name}`));
      expect(done).toEqual(names.map(() => `${rounds}`));
    }, PATIENCE);
    await idle();
    expect(await redis.get('test:overlaps')).toBeNull();
    const runs = await redis.hvals('test:runs');
    expect(runs).toHaveLength(2);
    expect(QUEUE_KEYS).toEqual(expect.arrayContaining(await queueKeys()));
  });

  it('of a killed worker are taken up after its lock and one check for stalled jobs', async () => {
    const first = await startWorker();
    await storage.lanes.wake('hold:a');
    await seen(first, { type: 'started', conversation: 'hold:a' });
    const second = await startWorker();
    // Merged into the job that the dead worker holds; must not be lost with it.
    await storage.lanes.wake('hold:a');
    const killedAt = performance.now();
    first.kill('SIGKILL');
    await seen(second, { type: 'started', conversation: 'hold:a' });
    expect(performance.now() - killedAt).toBeLessThan(LOCK_MS + STALLED_CHECK_MS + 500);
    await redis.set('test:release', 1);
    await idle();
    expect(QUEUE_KEYS).toEqual(expect.arrayContaining(await queueKeys()));
  });

  it('survive any number of crashes of their workers', async () => {
    await storage.lanes.wake('hold:a');
    for (let n = 0; n < 4; n += 1) {
      const worker = await startWorker();
      await seen(worker, { type: 'started', conversation: 'hold:a' });
      worker.kill('SIGKILL');
    }
    await redis.set('test:release', 1);
    await seen(await startWorker(), { type: 'ended', conversation: 'hold:a' });
    await idle();
  });

  it('stop with "lost" in a worker that was stopped for longer than its lock, after another one took over', async () => {
    const first = await startWorker();
    await storage.lanes.wake('hold:a');
    await seen(first, { type: 'started', conversation: 'hold:a' });
    const second = await startWorker();
    first.kill('SIGSTOP');
    await seen(second, { type: 'started', conversation: 'hold:a' });
    first.kill('SIGCONT');
    await seen(first, { type: 'aborted', conversation: 'hold:a', reason: 'lost' });
    await seen(first, { type: 'ended', conversation: 'hold:a' });
    // The stale end took nothing from the one who has it now.
    expect(second.events).not.toContainEqual({ type: 'ended', conversation: 'hold:a' });
    expect(await storage.lanes.depth()).toMatchObject({ active: 1 });
    await storage.lanes.wake('count:b');
    await vi.waitFor(async () => expect(await redis.hvals('test:runs')).toHaveLength(1), PATIENCE);
    await redis.set('test:release', 1);
    await seen(second, { type: 'ended', conversation: 'hold:a' });
    expect(second.events).not.toContainEqual({ type: 'aborted', conversation: 'hold:a', reason: 'lost' });
    await idle();
    expect(QUEUE_KEYS).toEqual(expect.arrayContaining(await queueKeys()));
  });

  it('stop with "lost" in a worker whose event loop was blocked, and are run again there if it is the only one', async () => {
    const only = await startWorker();
    await storage.lanes.wake('block:a');
    await seen(only, { type: 'aborted', conversation: 'block:a', reason: 'lost' });
    await redis.set('test:release', 1);
    await idle();
    expect(only.events.filter((event) => event.type === 'started').length).toBeGreaterThan(1);
  });

  it('are renewed for as long as a handler works: nobody else gets it', async () => {
    const [first, second] = [await startWorker(), await startWorker()];
    await storage.lanes.wake('hold:a');
    const until = performance.now() + 3 * LOCK_MS;
    await vi.waitFor(() => expect(performance.now()).toBeGreaterThan(until), PATIENCE);
    expect([...first.events, ...second.events].filter((event) => event.type === 'started')).toHaveLength(1);
    await redis.set('test:release', 1);
    await idle();
    expect([...first.events, ...second.events].filter((event) => event.type === 'aborted')).toEqual([]);
  });
});
