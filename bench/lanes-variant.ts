// One way of making lanes, run to the end in this process: `--variant objects|jobs --url redis://… --conversations N`.
// Prints its figures as one line of JSON. A helper of lanes.ts.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { z } from 'zod';
import { info } from './lib/redis.ts';

export type LaneVariant = 'objects' | 'jobs';

export const laneFigures = z.strictObject({
  /** The first three messages of every conversation: its lane is made on the way. */
  messagesPerSecond: z.number(),
  /** The next three. */
  warmMessagesPerSecond: z.number(),
  connections: z.number(),
  idleKeys: z.number(),
  idleKilobytes: z.number(),
  rssMb: z.number(),
  overlaps: z.number(),
  misplaced: z.number(),
});

const MESSAGES = 3;
const RUN_MS = 1;
/** Runs at a time over all conversations, as `workers.concurrency` has it; the other way's is the number of Workers. */
const CONCURRENCY = 100;

interface Lanes {
  send(conversation: string, message: number): Promise<unknown>;
  close(): Promise<void>;
}
type Run = (conversation: string, message: number) => Promise<void>;

/** A Queue and a Worker object for each conversation, made when it first speaks; a message is a job. */
function objects(shared: Redis, run: Run): Lanes {
  const lanes = new Map<string, { queue: Queue; worker: Worker }>();
  const laneOf = (name: string): { queue: Queue; worker: Worker } => {
    const known = lanes.get(name);
    if (known !== undefined) return known;
    const queue = new Queue(name, { connection: shared, defaultJobOptions: { removeOnComplete: true } });
    const worker = new Worker<number>(name, (job) => run(name, job.data), {
      connection: shared,
      concurrency: 1,
    });
    worker.on('error', report);
    lanes.set(name, { queue, worker });
    return { queue, worker };
  };
  return {
    send: (conversation, message) => laneOf(conversation).queue.add('message', message),
    async close() {
      await Promise.all([...lanes.values()].map(({ worker }) => worker.close(true)));
      await Promise.all([...lanes.values()].map(({ queue }) => queue.close()));
    },
  };
}

/** One queue: a conversation is a deduplicated job, its messages wait in a list that the run empties. */
function jobs(shared: Redis, run: Run): Lanes {
  const queue = new Queue('lanes', { connection: shared, defaultJobOptions: { removeOnComplete: true } });
  const worker = new Worker<string>(
    'lanes',
    async (job) => {
      const inbox = `inbox:${job.data}`;
      for (const message of (await shared.lpop(inbox, MESSAGES)) ?? []) await run(job.data, Number(message));
    },
    { connection: shared, concurrency: CONCURRENCY },
  );
  worker.on('error', report);
  return {
    async send(conversation, message) {
      await shared.rpush(`inbox:${conversation}`, message);
      await queue.add('lane', conversation, { deduplication: { id: conversation, keepLastIfActive: true } });
    },
    async close() {
      await worker.close(true);
      await queue.close();
    },
  };
}

const report = (error: unknown): void => {
  process.stderr.write(`${String(error)}\n`);
};

async function bytesOf(client: Redis, keys: string[]): Promise<number> {
  let bytes = 0;
  for (let from = 0; from < keys.length; from += 500) {
    const pipeline = client.pipeline();
    for (const key of keys.slice(from, from + 500)) pipeline.memory('USAGE', key, 'SAMPLES', 0);
    for (const [, size] of (await pipeline.exec()) ?? []) bytes += Number(size);
  }
  return bytes;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      variant: { type: 'string' },
      url: { type: 'string', default: '' },
      conversations: { type: 'string', default: '10' },
    },
  });
  const names = Array.from({ length: Number(values.conversations) }, (_, i) => `conversation-${i}`);
  const probe = new Redis(values.url);
  const shared = new Redis(values.url, { maxRetriesPerRequest: null });

  const active = new Set<string>();
  const seen = new Map<string, number[]>(names.map((name) => [name, []]));
  let overlaps = 0;
  let left = 0;
  let finish: (() => void) | undefined;
  const run: Run = async (conversation, message) => {
    if (active.has(conversation)) overlaps++;
    active.add(conversation);
    await sleep(RUN_MS);
    active.delete(conversation);
    seen.get(conversation)?.push(message);
    if (--left === 0) finish?.();
  };
  const lanes = values.variant === 'objects' ? objects(shared, run) : jobs(shared, run);
  /** Messages from..from+2 to every conversation; messages per second until the last was run. */
  const rate = async (from: number): Promise<number> => {
    left = names.length * MESSAGES;
    const { promise: finished, resolve } = Promise.withResolvers<void>();
    finish = resolve;
    const started = performance.now();
    for (let message = from; message < from + MESSAGES; message++)
      await Promise.all(names.map((name) => lanes.send(name, message)));
    await finished;
    return (names.length * MESSAGES * 1000) / (performance.now() - started);
  };
  const first = await rate(0);
  const warm = await rate(MESSAGES);

  // Not counted: the probe, and the connection of the process that started redis-server.
  const connections = Number((await info(probe, 'clients')).get('connected_clients')) - 2;
  const memory = process.memoryUsage().rss / 1e6;
  await idle(probe);
  const keys = await probe.keys('*');
  const misplaced = names.filter((name) => seen.get(name)?.join() !== '0,1,2,3,4,5').length;
  const figures: z.infer<typeof laneFigures> = {
    messagesPerSecond: first,
    warmMessagesPerSecond: warm,
    connections,
    idleKeys: keys.length,
    idleKilobytes: (await bytesOf(probe, keys)) / 1000,
    rssMb: memory,
    overlaps,
    misplaced,
  };
  process.stdout.write(`${JSON.stringify(figures)}\n`);
  await lanes.close();
  shared.disconnect();
  probe.disconnect();
}

/** Waits until no job is left: the last completion is written a moment after its run. */
async function idle(client: Redis): Promise<void> {
  for (let before = -1; ;) {
    const now = await client.dbsize();
    if (now === before) return;
    before = now;
    await sleep(300);
  }
}

if (import.meta.main) await main();
