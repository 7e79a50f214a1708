// LaneQueue on BullMQ: one queue for all conversations, in which a conversation is one deduplicated job: at most one
// active and one waiting, and a wake during a run becomes the next job when it ends. The inbox holds the messages, the
// job only the conversation's name. BullMQ's lock makes overlapping runs rare; the store's epoch makes them harmless.
import { DelayedError, Queue, Worker, type Job } from 'bullmq';
import type { LaneHandler, LaneOutcome, LaneQueue } from '../../ports/lanes.ts';
import type { Logger } from '../../ports/log.ts';
import { isConnectionError, type Connections } from './connection.ts';
import { endClient } from './ending.ts';
import { idOf, nameOf, QUEUE_PREFIX } from './keys.ts';
import { createReporter, reasonOf } from './reporter.ts';
import { createRuns } from './runs.ts';

export interface LaneOptions {
  /** Queue name: 'lanes' or 'deliveries'. */
  name: string;
  connections: Connections;
  /** How long a worker may be silent before another one takes over. */
  lockMs: number;
  /** How long work() and close() wait for Redis. */
  timeoutMs: number;
  log: Logger;
}

type LaneJob = Job<{ lane: string }>;

/** A handler that throws is retried after this, doubled each time, up to the maximum. */
const BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 60_000;
/** How long a conversation waits that this process is still leaving after a lost lock. */
const LEAVING_MS = 250;

export function createLanes({ name, connections, lockMs, timeoutMs, log }: LaneOptions): LaneQueue {
  const reporter = createReporter(
    log,
    { queue: name },
    'queue error; what it stopped is taken up again by itself',
  );
  const queue = new Queue<{ lane: string }>(name, {
    connection: connections.queues,
    prefix: QUEUE_PREFIX,
    // The version is asked for with a command that may fail, and the queue would keep that failure for good.
    skipVersionCheck: true,
    streams: { events: { maxLen: 100 } },
    defaultJobOptions: {
      removeOnComplete: true,
      removeOnFail: true,
      // For what fails outside of the handler: moving a job whose lock was lost. At once: BullMQ's back-off is by this machine's clock.
      attempts: 1_000_000,
      stackTraceLimit: 0,
    },
  });
  // Connection errors are reported where the connections are made.
  queue.on('error', (error) => {
    if (!isConnectionError(error)) reporter.failed(error);
  });

  let worker: ReturnType<typeof startWorker> | undefined;
  let closing: Promise<void> | undefined;

  async function wake(conversation: string): Promise<void> {
    const lane = nameOf(conversation);
    await connections.callQueues(() =>
      queue.add('wake', { lane }, { deduplication: { id: lane, keepLastIfActive: true } }),
    );
  }

  /** Redis' clock less this process's monotonic one, as last seen. */
  let offsetMs: number | undefined;

  /** By Redis' clock: a job that was put off while this machine's clock was ahead would wait for as long as it was. */
  async function serverNow(): Promise<number> {
    try {
      const [seconds, micros] = await connections.callQueues((client) => client.time());
      const now = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
      offsetMs = now - performance.now();
      return now;
    } catch {
      // Redis is away: moving the job waits for it, and tells if it can't.
      return offsetMs === undefined ? Date.now() : Math.round(offsetMs + performance.now());
    }
  }

  function startWorker(handler: LaneHandler, concurrency: number) {
    const runs = createRuns(lockMs);
    const { client, cut } = connections.openWorker(name);
    /** How many times in a row a conversation's handler has thrown in this process. */
    const failures = new Map<string, number>();

    async function putOff(job: LaneJob, token: string | undefined, delayMs: number): Promise<never> {
      // Not job.moveToDelayed(): it counts from this machine's clock, and one that is ahead put the job off by as much.
      const delay = Math.max(0, Math.ceil(delayMs));
      await bull.backend.moveToDelayed(job.id!, await serverNow(), delay, token, { skipAttempt: true });
      throw new DelayedError();
    }

    async function work(job: LaneJob, token: string | undefined): Promise<void> {
      const conversation = idOf(job.data.lane);
      // Fetched while closing, or still being left here after its lock was lost: back into the queue.
      const run = closing ? undefined : runs.enter(conversation, job.id);
      if (!run) return putOff(job, token, closing ? 0 : LEAVING_MS);
      let outcome: LaneOutcome;
      try {
        outcome = await handler(conversation, run.signal);
        failures.delete(conversation);
      } catch (error) {
        const failed = (failures.get(conversation) ?? 0) + 1;
        failures.set(conversation, failed);
        const retryInMs = Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** (failed - 1));
        log.warn(
          { queue: name, conversation, reason: reasonOf(error), failed, retryInMs },
          'lane handler failed; again after a back-off',
        );
        outcome = { retryInMs };
      } finally {
        runs.leave(conversation, run);
      }
      // The job is somebody else's by now, or will be found stalled: nothing to say about it.
      if (run.signal.reason === 'lost') throw new DelayedError();
      if (outcome === 'idle') return;
      if (outcome !== 'more') return putOff(job, token, outcome.retryInMs);
      try {
        // Behind the others that wait: a long backlog holds no worker slot.
        await wake(conversation);
      } catch {
        // Redis is going away; the worker's own connection waits for it.
        return putOff(job, token, 0);
      }
    }

    const bull = new Worker<{ lane: string }>(name, work, {
      connection: client,
      prefix: QUEUE_PREFIX,
      concurrency,
      lockDuration: lockMs,
      stalledInterval: Math.max(100, Math.floor(lockMs / 2)),
      // A lane that crashed its workers is still a lane: the attempt count is in the store.
      maxStalledCount: Number.MAX_SAFE_INTEGER,
      // Bounds how long a job waits whose wake-up mark was lost with a worker.
      drainDelay: 2,
    });
    bull.on('error', (error) => {
      // A lost lock is reported by 'lockRenewalFailed', and by the run that ends.
      if (/lock|Missing key/i.test(error.message))
        log.debug({ queue: name, reason: error.message }, 'job lock lost');
      else if (!isConnectionError(error)) reporter.failed(error);
    });
    bull.on('locksRenewed', ({ jobIds }) => runs.renewed(jobIds));
    bull.on('lockRenewalFailed', (jobIds) => {
      log.warn(
        { queue: name, jobs: jobIds.length },
        'job locks lost: this process was too slow; its runs stop',
      );
      runs.lost(jobIds);
    });

    return {
      async ready() {
        // Side by side: with Redis away each takes its whole time.
        await Promise.all([within(timeoutMs, bull.waitUntilReady()), serverNow()]);
      },
      async close(graceMs: number) {
        const closed = bull.close();
        await within(graceMs, runs.settled());
        runs.abortAll('drain');
        await runs.settled();
        // What is left is telling Redis; with Redis away that would take as long as it does.
        if (!(await within(timeoutMs, closed))) {
          await cut();
          await closed;
        }
        await endClient(client);
        runs.close();
      },
    };
  }

  return {
    wake,

    async work(handler, { concurrency }) {
      if (worker) throw new Error(`queue ${name}: work() was called before`);
      worker = startWorker(handler, concurrency);
      // With Redis away the worker goes on connecting, and starts when it returns.
      await worker.ready();
    },

    async depth() {
      const counts = await connections.callQueues(() => queue.getJobCounts('waiting', 'active', 'delayed'));
      return {
        waiting: counts['waiting'] ?? 0,
        active: counts['active'] ?? 0,
        delayed: counts['delayed'] ?? 0,
      };
    },

    close(graceMs) {
      closing ??= (async () => {
        await worker?.close(graceMs);
        await queue.close();
      })();
      return closing;
    },
  };
}

/** True if it settled within the time; a rejection is passed on. */
async function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(resolve, ms, false)));
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
