// Redis away: at the start, in the middle, for good, or there and silent. What was acknowledged is kept, nothing hangs,
// everything goes on by itself, and no secret gets into a log or an error.
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { RunEvent } from '../../src/domain/events.ts';
import type { LaneHandler } from '../../src/ports/lanes.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage, type RedisStorageOptions } from '../../src/storage/redis/index.ts';
import { silentLog } from '../fakes/log.ts';
import { startRedis, type RedisServer, type RedisServerOptions } from '../fakes/redis-server.ts';
import { closeStorage } from '../fakes/storage.ts';
import { claimed, collect, inbound, merge, update, userEntry } from './suites/support.ts';

const PATIENCE = { timeout: 20_000, interval: 20 };
const TIMEOUT_MS = 2_000;

function recordingLog(): Logger & { lines: string[] } {
  const lines: string[] = [];
  const at = (level: string) => (fields: Record<string, unknown>, message: string) =>
    void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  return { ...log, lines, child: () => ({ ...log, child: () => silentLog }) };
}

const elapsed = async (operation: Promise<unknown>): Promise<number> => {
  const start = performance.now();
  await operation.catch(() => undefined);
  return performance.now() - start;
};

describe('Redis storage without Redis', () => {
  const cleanups: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
  });

  const start = async (options?: RedisServerOptions): Promise<RedisServer> => {
    const server = await startRedis(options);
    cleanups.push(() => server.close());
    return server;
  };
  const open = async (server: RedisServer, options: Partial<RedisStorageOptions> = {}): Promise<Storage> => {
    const storage = await createRedisStorage({
      url: server.url,
      log: silentLog,
      lockSeconds: 2,
      timeoutMs: TIMEOUT_MS,
      ...options,
    });
    cleanups.push(() => storage.close());
    return storage;
  };

  it('starts while Redis is away, says so, and works as soon as it is there', async () => {
    const server = await start({ started: false });
    const log = recordingLog();
    const opened = performance.now();
    const storage = await open(server, { log });
    expect(performance.now() - opened).toBeLessThan(TIMEOUT_MS + 1_000);
    await expect(storage.check()).rejects.toMatchObject({
      code: 'storage_unavailable',
      message: expect.stringContaining(`127.0.0.1:${server.port}`),
    });
    expect(await elapsed(storage.store.append(inbound('acct:a', 'm1')))).toBeLessThan(TIMEOUT_MS + 1_000);
    const seen: string[] = [];
    const handler: LaneHandler = async (conversation) => {
      seen.push(conversation);
      return 'idle';
    };
    expect(await elapsed(storage.lanes.work(handler, { concurrency: 5 }))).toBeLessThan(TIMEOUT_MS + 1_000);
    const signals: unknown[] = [];
    storage.control.onSignal((signal) => signals.push(signal));

    await server.start();
    await vi.waitFor(() => storage.check(), PATIENCE);
    expect(await storage.store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: false });
    await storage.lanes.wake('acct:a');
    await vi.waitFor(() => expect(seen).toEqual(['acct:a']), PATIENCE);
    await claimed(storage.store, 'acct:a', 'r1');
    await vi.waitFor(async () => {
      await storage.control.cancel('acct:a');
      expect(signals).not.toEqual([]);
    }, PATIENCE);
    // A line per connection, not one per attempt.
    expect(log.lines.filter((line) => line.startsWith('error')).length).toBeLessThan(10);
    expect(log.lines.join('\n')).toContain('Redis is back');
  });

  it('closes while Redis is away: never there, or gone', async () => {
    const server = await start({ started: false });
    const never = await open(server);
    await never.lanes.work(async () => 'idle', { concurrency: 1 });
    expect(await elapsed(closeStorage(never))).toBeLessThan(10_000);

    await server.start();
    const gone = await open(server);
    const started = Promise.withResolvers<AbortSignal>();
    await gone.lanes.work(
      async (_, signal) => {
        started.resolve(signal);
        await new Promise((resolve) => {
          signal.addEventListener('abort', resolve);
        });
        return 'more';
      },
      { concurrency: 1 },
    );
    await gone.lanes.wake('acct:a');
    const signal = await started.promise;
    await server.stop('SIGKILL');
    expect(await elapsed(closeStorage(gone))).toBeLessThan(15_000);
    expect(signal.reason).toBe('drain');
  });

  it('rejects within its time when Redis is there and silent, and goes on when it speaks again', async () => {
    const server = await start();
    const storage = await open(server);
    await storage.check();
    process.kill(server.pid(), 'SIGSTOP');
    try {
      const appends = [1, 2, 3].map((n) => storage.store.append(inbound('acct:a', `m${n}`)));
      const results = Promise.allSettled(appends);
      expect(await elapsed(results)).toBeLessThan(TIMEOUT_MS + 1_000);
      for (const result of await results) {
        expect(result).toMatchObject({ status: 'rejected', reason: { code: 'storage_unavailable' } });
      }
      expect(await elapsed(storage.events.publish('acct:a', [update('acct:a', 'x')]))).toBeLessThan(
        TIMEOUT_MS + 1_000,
      );
    } finally {
      process.kill(server.pid(), 'SIGCONT');
    }
    await vi.waitFor(() => storage.check(), PATIENCE);
    await storage.store.append(inbound('acct:a', 'm4'));
    // Those that were not acknowledged may be there as well: each once.
    const { snapshot } = await claimed(storage.store, 'acct:a', 'r1');
    const ids = snapshot.inbox.map((message) => message.id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.at(-1)).toBe('m4');
  });

  it('loses nothing acknowledged when Redis is killed again and again; lanes go on by themselves', async () => {
    const server = await start();
    const [gateway, worker] = [await open(server), await open(server)];
    const conversations = Array.from({ length: 5 }, (_, n) => `acct:${n}`);
    const acknowledged = new Map<string, string[]>(conversations.map((name) => [name, []]));
    let runs = 0;
    await worker.lanes.work(
      async (conversation) => {
        const claim = await worker.store.claim(conversation, {
          run: `r${(runs += 1)}`,
          leaseMs: 1_000,
          limit: 5,
        });
        if (claim.status === 'held') return { retryInMs: claim.forMs };
        if (claim.status !== 'claimed') return 'idle';
        const { lease, snapshot } = claim;
        if (!(await worker.store.journal(lease, [{ v: 1, kind: 'tool_start', call_id: lease.run }])))
          return 'more';
        const entries = snapshot.inbox.map((message) =>
          Object.assign(userEntry(lease.run, message.text), { id: message.id }),
        );
        const done = await worker.store.commit(lease, merge({ entries }));
        return done === false || done.more ? 'more' : 'idle';
      },
      { concurrency: 5 },
    );

    const sending = new AbortController();
    const senders = conversations.map(async (conversation) => {
      for (let n = 0; !sending.signal.aborted; n += 1) {
        // As a platform does: the same message until it is acknowledged.
        for (;;) {
          const appended = await gateway.store.append(inbound(conversation, `m${n}`)).catch(() => undefined);
          if (appended) break;
        }
        acknowledged.get(conversation)!.push(`m${n}`);
        await gateway.lanes.wake(conversation).catch(() => undefined);
        await new Promise((resolve) => {
          setTimeout(resolve, 5);
        });
      }
    });
    const answered = async (conversation: string) => {
      const { items } = await gateway.reader.history(conversation, { limit: 100_000 });
      return items.map((entry) => entry.id);
    };
    for (let round = 0; round < 3; round += 1) {
      const before = runs;
      await vi.waitFor(() => expect(runs).toBeGreaterThan(before + 20), PATIENCE);
      await server.stop('SIGKILL');
      await server.start();
    }
    const before = runs;
    await vi.waitFor(() => expect(runs).toBeGreaterThan(before + 20), PATIENCE);
    sending.abort();
    await Promise.all(senders);
    // The sweep: wakes that were lost while Redis was away.
    for (const conversation of await collect(gateway.reader.pending('lanes')))
      await gateway.lanes.wake(conversation);

    for (const conversation of conversations) {
      const sent = acknowledged.get(conversation)!;
      expect(sent.length).toBeGreaterThan(10);
      await vi.waitFor(async () => expect(await answered(conversation)).toEqual(sent), PATIENCE);
    }
    await vi.waitFor(
      async () => expect(await worker.lanes.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }),
      PATIENCE,
    );
  });

  it('a run that is at work while Redis restarts goes on, and so does its lane', async () => {
    const server = await start();
    const storage = await open(server);
    const calls: { signal: AbortSignal; end: () => void }[] = [];
    await storage.lanes.work(
      (_, signal) =>
        new Promise((resolve) => {
          calls.push({ signal, end: () => resolve('idle') });
        }),
      { concurrency: 5 },
    );
    await storage.lanes.wake('acct:a');
    await vi.waitFor(() => expect(calls).toHaveLength(1), PATIENCE);
    await server.stop('SIGKILL');
    await server.start();
    await vi.waitFor(() => storage.lanes.wake('acct:a'), PATIENCE);
    calls[0]!.end();
    await vi.waitFor(() => expect(calls).toHaveLength(2), PATIENCE);
    expect(calls[0]!.signal.aborted).toBe(false);
    calls[1]!.end();
    await vi.waitFor(
      async () => expect(await storage.lanes.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }),
      PATIENCE,
    );
  });

  it('tells a run that it may be lost when Redis is away for longer than the lock', async () => {
    const server = await start();
    const storage = await open(server, { lockSeconds: 1 });
    const signals: AbortSignal[] = [];
    await storage.lanes.work(
      async (_, signal) => {
        signals.push(signal);
        if (signals.length > 1) return 'idle';
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve('more'));
        });
      },
      { concurrency: 1 },
    );
    await storage.lanes.wake('acct:a');
    await vi.waitFor(() => expect(signals).toHaveLength(1), PATIENCE);
    await server.stop('SIGKILL');
    await vi.waitFor(() => expect(signals[0]!.reason).toBe('lost'), PATIENCE);
    await server.start();
    await vi.waitFor(() => expect(signals.length).toBeGreaterThan(1), PATIENCE);
  });

  it('event readers catch up after a reconnect, without loss or repetition', async () => {
    const server = await start();
    const [a, b] = [await open(server, { maxEvents: 10_000 }), await open(server, { maxEvents: 10_000 })];
    const subscription = await a.events.subscribe('acct:a', { signal: new AbortController().signal });
    const numbers: number[] = [];
    const total = 4_000;
    const reading = (async () => {
      for await (const logged of subscription) {
        if ('resync' in logged) throw new Error('resync');
        numbers.push(Number((logged.event as Extract<RunEvent, { type: 'message_update' }>).delta));
        if (numbers.at(-1) === total - 1) return;
      }
    })();
    const admin = new Redis(server.url);
    cleanups.push(async () => admin.disconnect());
    for (let n = 0; n < total; n += 20) {
      // Cuts the readers' connections again and again, while events keep coming: also right behind the answer that the
      // channel is subscribed to.
      if (n % 400 === 200) await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      await Promise.all(
        Array.from({ length: 20 }, (_, k) => b.events.publish('acct:a', [update('acct:a', `${n + k}`)])),
      );
    }
    await reading;
    expect(numbers).toEqual(Array.from({ length: total }, (_, n) => n));
  });

  it('keeps passwords out of logs and errors', async () => {
    const server = await start({ args: ['--requirepass', 'right-secret'] });
    const log = recordingLog();
    const url = server.url.replace('redis://', 'redis://:wrong-secret@');
    const storage = await open(server, { log, url });
    const error = await storage.store
      .append(inbound('acct:a', 'm1', { text: 'private text' }))
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'storage_unavailable',
      message: expect.stringContaining('WRONGPASS'),
    });
    const shown = `${log.lines.join('\n')}\n${JSON.stringify(error, Object.getOwnPropertyNames(error))}`;
    expect(shown).toContain('WRONGPASS');
    expect(shown).not.toContain('secret');
    expect(shown).not.toContain('private text');
    for (const bad of ['http://u:secret@h', 'secret', 'redis//:secret@h']) {
      const refused = await createRedisStorage({ url: bad, log }).catch((reason: unknown) => reason);
      expect(refused).toMatchObject({ code: 'config_invalid' });
      expect(String(refused)).not.toContain('secret');
    }
  });

  it('passes on what Redis refuses, without the arguments', async () => {
    const server = await start();
    const storage = await open(server);
    await storage.check();
    const admin = new Redis(server.url);
    cleanups.push(async () => admin.disconnect());
    await admin.config('SET', 'maxmemory', '1');
    const error = await storage.store
      .append(inbound('acct:a', 'm1', { text: 'private text' }))
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'storage_unavailable', message: expect.stringContaining('OOM') });
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('private text');
    await expect(storage.check()).rejects.toMatchObject({ code: 'storage_unavailable' });
    await admin.config('SET', 'maxmemory', '0');
    expect(await storage.store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: false });
  });

  it('warns once of settings that break its promises', async () => {
    const good = recordingLog();
    const storage = await open(await start(), { log: good });
    await storage.check();
    expect(good.lines.filter((line) => line.startsWith('warn'))).toEqual([]);

    const bad = recordingLog();
    const args = ['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru'];
    const risky = await open(await start({ args }), { log: bad });
    await risky.check();
    await risky.check();
    const warnings = bad.lines.filter((line) => line.startsWith('warn'));
    expect(warnings).toHaveLength(2);
    expect(warnings.join('\n')).toMatch(/noeviction[\s\S]*appendonly/);

    const lazy = recordingLog();
    const lossy = await open(await start({ args: ['--appendfsync', 'no'] }), { log: lazy });
    await lossy.check();
    expect(lazy.lines.filter((line) => line.startsWith('warn'))).toEqual([
      expect.stringContaining('appendfsync'),
    ]);
  });
});
