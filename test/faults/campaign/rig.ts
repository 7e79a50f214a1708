// What a campaign runs on: the server's processes, Redis behind a proxy for each of them (or SQLite on a small file
// system), the fake model, and the programs that are called back.
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, statfs, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startModelServer, type ModelServer } from '../../fakes/model-server.ts';
import { startRedis, type RedisServer } from '../../fakes/redis-server.ts';
import { startServer, withModel } from '../../fakes/server.ts';
import { API_KEY } from '../../fakes/webhook-client.ts';
import { GATEWAYS, LOCK_SECONDS, SINGLE, WORKERS, type Backend } from './plan.ts';
import { supervise, type Supervised } from './process.ts';
import { startProxy, type Proxy } from './proxy.ts';
import { startReceiver, type Receiver } from './receiver.ts';
import { openRedisTruth, openSqliteTruth, type Truth } from './truth.ts';

const ENTRY = join(import.meta.dirname, '../../fakes/fault-server.ts');
const MODEL_KEY = 'sk-fake-key';
const TMPFS_MB = 48;

/** A line of fault-server's record. */
export interface Recorded {
  what: 'appended' | 'claimed' | 'ran' | 'journaled' | 'committed';
  at: number;
  pid: number;
  conversation: string;
  run?: string;
  epoch?: number;
  call?: string;
  tool?: string;
  /** What the call was made for: the message's id. */
  tag?: string;
  merged?: boolean;
  id?: string;
  duplicate?: boolean;
}

export interface Rig {
  backend: Backend;
  processes: ReadonlyMap<string, Supervised>;
  /** Base URLs of the processes that take messages and run now. */
  urls(): string[];
  proxies: ReadonlyMap<string, Proxy>;
  redis: RedisServer | undefined;
  /** Redis takes no command for so long. */
  pauseRedis(forMs: number): Promise<void>;
  model: ModelServer;
  receiver: Receiver;
  truth: Truth;
  /** Fills the disk under SQLite; returns what frees it. Undefined where that can't be done. */
  fillDisk: (() => Promise<() => Promise<void>>) | undefined;
  takeRecord(): Promise<Recorded[]>;
  secrets: readonly string[];
  close(): Promise<void>;
}

export interface RigOptions {
  backend: Backend;
  /** A promise that fault-server.ts breaks on purpose. */
  mutant?: string;
  logLevel?: string;
  /** Seconds; default 2. */
  sweepSeconds?: number;
}

export async function startRig({
  backend,
  mutant,
  logLevel = 'info',
  sweepSeconds = 2,
}: RigOptions): Promise<Rig> {
  const cleanups: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
  };
  try {
    const model = await startModelServer();
    cleanups.push(() => model.close());
    const receiver = await startReceiver();
    cleanups.push(() => receiver.close());
    const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-faults-'));
    cleanups.push(() => rm(folder, { recursive: true, force: true }));
    const mounted = backend === 'sqlite' && mountTmpfs(folder);
    if (mounted) cleanups.push(async () => execFileSync('umount', ['-l', folder]));
    // Beside the small file system: it can be full.
    const record = join(tmpdir(), `${folder.split('/').at(-1)}-record`);
    await writeFile(record, '');
    cleanups.push(() => rm(record, { force: true }));

    const redis = backend === 'redis' ? await startRedis() : undefined;
    if (redis) cleanups.push(() => redis.close());

    const config = withModel(model.openaiUrl, configOf(model.openaiUrl, sweepSeconds));
    const env = { RECORD: record, LOG_LEVEL: logLevel, ...(mutant ? { MUTANT: mutant } : {}) };
    const proxies = new Map<string, Proxy>();
    const processes = new Map<string, Supervised>();
    const names = redis ? [...GATEWAYS, ...WORKERS] : [SINGLE];
    for (const name of names) {
      const proxy = redis && (await startProxy(redis.port));
      if (proxy) {
        proxies.set(name, proxy);
        cleanups.push(() => proxy.close());
      }
      const role = name.startsWith('gateway') ? 'gateway' : name.startsWith('worker') ? 'worker' : 'all';
      const dataDir = redis ? await mkdtemp(join(folder, `${name}-`)) : folder;
      const launch = () =>
        startServer({
          entry: ENTRY,
          config,
          args: ['--role', role],
          env,
          dataDir,
          ipc: true,
          ...(proxy ? { redisUrl: proxy.url } : {}),
        });
      const process = supervise(name, launch);
      processes.set(name, process);
      cleanups.push(() => process.close());
    }
    await Promise.all([...processes.values()].map((process) => process.up()));
    const truth = redis
      ? openRedisTruth(redis.url)
      : openSqliteTruth(processes.get(SINGLE)!, join(folder, 'lanekeeper.db'));
    cleanups.push(() => truth.close());

    const takers = redis ? [...GATEWAYS] : [SINGLE];
    return {
      backend,
      processes,
      proxies,
      redis,
      pauseRedis: (forMs) => truth.pause(forMs),
      model,
      receiver,
      truth,
      urls: () => takers.flatMap((name) => processes.get(name)?.current()?.url ?? []),
      fillDisk: mounted ? () => fillDisk(folder) : undefined,
      async takeRecord() {
        const text = await readFile(record, 'utf8');
        await truncate(record);
        return text
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => JSON.parse(line) as Recorded);
      },
      secrets: [API_KEY, 'test-admin-token', MODEL_KEY],
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const configOf = (openaiUrl: string, sweepSeconds: number): Record<string, unknown> => ({
  models: {
    fake: {
      provider: 'openai',
      model: 'fake-1',
      base_url: openaiUrl,
      api_key: MODEL_KEY,
      idle_timeout_ms: 1_200,
    },
  },
  server: { drain_seconds: 0.4 },
  workers: { lock_seconds: LOCK_SECONDS, sweep_seconds: sweepSeconds, max_attempts: 50 },
  agent: { retry: { attempts: 8, base_ms: 20, max_ms: 200 } },
  tools: { enabled: ['count_once', 'count_many'] },
  delivery: { base_ms: 40, max_ms: 300, timeout_ms: 700, max_attempts: 200 },
  channels: {
    web: { type: 'web', enabled: false },
    webhook: {
      type: 'webhook',
      api_keys: [API_KEY],
      allow_private_callbacks: true,
      limits: { per_minute: 1_000_000 },
    },
  },
});

/** A file system that can be filled without harm; needs root on Linux. */
function mountTmpfs(folder: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${TMPFS_MB}m`, 'tmpfs', folder], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

async function fillDisk(folder: string): Promise<() => Promise<void>> {
  const ballast = join(folder, 'ballast');
  const { bavail, bsize } = await statfs(folder);
  await writeFile(ballast, Buffer.alloc(bavail * bsize)).catch(() => undefined);
  return () => rm(ballast, { force: true });
}
