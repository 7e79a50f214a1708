// The storage alone: one message through append → claim → commit, against the length of the history; and a wake,
// against the number of active runs. Both must stay flat.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configSchema } from '../config/schema.ts';
import { openStorage } from '../src/backend.ts';
import type { HistoryEntry } from '../src/domain/messages.ts';
import type { Logger } from '../src/ports/log.ts';
import type { Storage } from '../src/ports/storage.ts';
import { startRedis } from './lib/redis.ts';
import type { Report } from './lib/report.ts';
import { figure, median } from './lib/stats.ts';

type Backend = 'embedded' | 'redis';

interface StoreFigures {
  /** Cycles a second, one after another and 50 conversations at once. */
  sequential: number;
  atOnce: number;
  /** Milliseconds a cycle, by entries in the history. */
  byHistory: { entries: number; ms: number }[];
  /** Milliseconds a wake, by runs that are active meanwhile. */
  byActive: { runs: number; ms: number }[];
}

const log: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (fields, message) => process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
  error: (fields, message) => process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
  child: () => log,
};

let serial = 0;

/** A message's whole way through the store: accepted, claimed, answered. */
async function cycle(storage: Storage, conversation: string): Promise<void> {
  const { store } = storage;
  const run = `run-${++serial}`;
  const id = `message-${serial}`;
  const at = Date.now();
  const sender = { id: 'somebody' };
  await store.append({ id, conversation, account: 'bench', at, sender, text: 'hello', busy: 'steer' });
  const claim = await store.claim(conversation, { run, leaseMs: 30_000, limit: 20 });
  if (claim.status !== 'claimed') throw new Error(`claim: ${claim.status}`);
  const content = [{ type: 'text' as const, text: 'hello' }];
  const entries: HistoryEntry[] = [
    { role: 'user', content, at, run, id, sender },
    { role: 'assistant', content, at, run, model: 'bench', stop: 'stop' },
  ];
  // The context stays as long as it is: what is older is covered by a summary.
  const { contextFrom, context } = claim.snapshot;
  const from = contextFrom + Math.max(0, context.length - 18);
  const outcome = { status: 'done' as const, reply: { text: 'hello' } };
  const committed = await store.commit(claim.lease, { entries, deliveries: [], outcome, context: { from } });
  if (committed === false) throw new Error('commit refused');
}

/** Fills a history with `count` entries, all but the newest covered by a summary. */
async function fill(storage: Storage, conversation: string, count: number): Promise<void> {
  const { store } = storage;
  const batch = 1000;
  for (let done = 0; done < count; done += batch) {
    const run = `fill-${++serial}`;
    const at = Date.now();
    const message = { id: run, conversation, account: 'bench', at, sender: { id: 'somebody' }, text: 'x' };
    await store.append({ ...message, busy: 'steer' });
    const claim = await store.claim(conversation, { run, leaseMs: 30_000, limit: 20 });
    if (claim.status !== 'claimed') throw new Error(`claim: ${claim.status}`);
    const content = [{ type: 'text' as const, text: 'a message of ordinary length, as people write them' }];
    const entries = Array.from({ length: batch }, (_, n): HistoryEntry => ({
      role: n % 2 === 0 ? 'user' : 'assistant',
      content,
      at,
      run,
    }));
    const outcome = { status: 'done' as const, reply: { text: 'x' } };
    const context = { from: done + batch, summary: 'long ago' };
    await store.commit(claim.lease, { entries, deliveries: [], outcome, context });
  }
}

const ROUNDS = 9;

type Work = (n: number) => Promise<void>;

/** Milliseconds each, the median of several rounds. */
async function each(count: number, work: Work): Promise<number> {
  const [ms = Number.NaN] = await alternately(count, [work]);
  return ms;
}

/** The same for several works that take turns, so that a busy moment of the machine hits all of them. */
async function alternately(count: number, works: Work[]): Promise<number[]> {
  const rounds = works.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round++)
    for (const [at, work] of works.entries()) {
      const started = performance.now();
      for (let n = 0; n < count; n++) await work(n);
      rounds[at]?.push((performance.now() - started) / count);
    }
  return rounds.map(median);
}

async function wakes(open: () => Promise<Storage>, runs: number, count: number): Promise<number> {
  const storage = await open();
  let active = 0;
  const { promise: all, resolve: allActive } = Promise.withResolvers<void>();
  const { promise: end, resolve: endAll } = Promise.withResolvers<void>();
  const handler = async (): Promise<'idle'> => {
    if (++active === runs) allActive();
    await end;
    return 'idle';
  };
  try {
    await storage.lanes.work(handler, { concurrency: runs + 10 });
    for (let n = 0; n < runs; n++) await storage.lanes.wake(`bench:active-${n}`);
    await all;
    return await each(count, (n) => storage.lanes.wake(`bench:active-${n % runs}`));
  } finally {
    endAll();
    await storage.lanes.close(10_000);
    await storage.deliveries.close(0);
    await storage.close();
  }
}

async function measure(backend: Backend, quick: boolean): Promise<StoreFigures> {
  const redis = backend === 'redis' ? await startRedis('always') : undefined;
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-bench-store-'));
  const config = configSchema.parse({ storage: { url: redis?.url ?? '', data_dir: dir } });
  const open = (): Promise<Storage> => openStorage(config, log);
  const count = quick ? 20 : 200;
  try {
    const storage = await open();
    await each(count, () => cycle(storage, 'bench:warm-up'));
    const sequential = await each(count, (n) => cycle(storage, `bench:one-${n}`));
    const atOnce = await each(quick ? 2 : 15, async (n) => {
      const names = Array.from({ length: 50 }, (_, slot) => `bench:many-${slot}-${n}`);
      await Promise.all(names.map((name) => cycle(storage, name)));
    });
    const lengths = quick ? [0, 1000] : [0, 10_000, 100_000];
    for (const entries of lengths) await fill(storage, `bench:history-${entries}`, entries);
    const inHistory = lengths.map((entries) => () => cycle(storage, `bench:history-${entries}`));
    // The contexts themselves fill up to their 18 entries first.
    for (let n = 0; n < 10; n++) for (const work of inHistory) await work();
    const byHistory = (await alternately(count, inHistory)).map((ms, at) => ({
      entries: lengths[at] ?? 0,
      ms,
    }));
    await storage.lanes.close(0);
    await storage.deliveries.close(0);
    await storage.close();
    const byActive: StoreFigures['byActive'] = [];
    for (const runs of quick ? [10, 50] : [10, 100, 1000, 5000])
      byActive.push({ runs, ms: await wakes(open, runs, quick ? 20 : 200) });
    return { sequential: 1000 / sequential, atOnce: 50_000 / atOnce, byHistory, byActive };
  } finally {
    await redis?.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

const msAt = (list: { ms: number }[], at: number): string => `${figure(list[at]?.ms ?? NaN, 2)} ms`;

export async function benchStore(options: { quick: boolean }): Promise<Report> {
  const embedded = await measure('embedded', options.quick);
  const redis = await measure('redis', options.quick);
  const both = (title: string, cell: (figures: StoreFigures) => string): string[] => [
    title,
    cell(embedded),
    cell(redis),
  ];
  return {
    name: 'store',
    title: 'Storage: a message through append → claim → commit',
    table: {
      columns: ['', 'embedded (SQLite)', 'Redis'],
      rows: [
        both('messages a second, one after another', (f) => figure(f.sequential)),
        both('messages a second, 50 conversations at once', (f) => figure(f.atOnce)),
        ...embedded.byHistory.map(({ entries }, at) =>
          both(`a message in a history of ${figure(entries)} entries`, (f) => msAt(f.byHistory, at)),
        ),
        ...embedded.byActive.map(({ runs }, at) =>
          both(`a wake while ${figure(runs)} runs are active`, (f) => msAt(f.byActive, at)),
        ),
      ],
    },
    notes: ['SQLite with synchronous=FULL; Redis with an append-only file and appendfsync always.'],
    data: { embedded, redis },
  };
}
