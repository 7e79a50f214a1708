// A worker process for lane tests: works the `lanes` queue of a Redis storage, with handlers that do what their
// conversation's name says. Started by startLaneWorker() through IPC; everything that happens is sent to the parent.
import { setTimeout as delay } from 'node:timers/promises';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import type { LaneHandler } from '../../src/ports/lanes.ts';
import type { Logger } from '../../src/ports/log.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';

export interface LaneEvent {
  type: 'ready' | 'started' | 'aborted' | 'ended';
  conversation?: string;
  reason?: unknown;
}

export interface LaneWorker {
  events: LaneEvent[];
  pid: number;
  kill(signal: NodeJS.Signals): void;
  /** Ends it at once, and waits until it is gone. */
  close(): Promise<void>;
}

export async function startLaneWorker(url: string, lockSeconds: number): Promise<LaneWorker> {
  const child = fork(fileURLToPath(import.meta.url), [url, `${lockSeconds}`], { execArgv: [] });
  const events: LaneEvent[] = [];
  const ended = once(child, 'exit');
  child.on('message', (event) => events.push(event as LaneEvent));
  await Promise.race([
    once(child, 'message'),
    ended.then(([code]) => Promise.reject(new Error(`lane worker ended with ${code}`))),
  ]);
  return {
    events,
    pid: child.pid!,
    kill: (signal) => child.kill(signal),
    async close() {
      // A stopped process takes no other signal.
      child.kill('SIGKILL');
      await ended;
    },
  };
}

async function main(url: string, lockSeconds: number): Promise<void> {
  const tell = (event: LaneEvent): void => void process.send?.(event);
  const nothing = () => undefined;
  const log: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => log };
  const storage = await createRedisStorage({ url, log, lockSeconds });
  const redis = new Redis(url);

  const handlers: Record<string, LaneHandler> = {
    /** Notices whoever works on the same conversation, and takes note of what was wanted when it ran. */
    async count(conversation) {
      if ((await redis.incr(`test:active:${conversation}`)) > 1) await redis.incr('test:overlaps');
      const wanted = (await redis.get(`test:wanted:${conversation}`)) ?? '';
      await delay(Math.random() * 3);
      await redis.set(`test:done:${conversation}`, wanted);
      await redis.decr(`test:active:${conversation}`);
      await redis.hincrby('test:runs', `${process.pid}`, 1);
      return 'idle';
    },
    /** Runs until it is told to stop, or until `test:release` is there. */
    async hold(_, signal) {
      while (!signal.aborted && !(await redis.exists('test:release')))
        await delay(20, undefined, { signal }).catch(nothing);
      return 'idle';
    },
    /** Blocks the whole process for three times its lock. */
    async block(_, signal) {
      if (await redis.exists('test:release')) return 'idle';
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lockSeconds * 3_000);
      while (!signal.aborted) await delay(20, undefined, { signal }).catch(nothing);
      return 'idle';
    },
  };

  await storage.lanes.work(
    async (conversation, signal) => {
      const handler = handlers[conversation.slice(0, conversation.indexOf(':'))];
      if (!handler) throw new Error(`no handler for ${conversation}`);
      tell({ type: 'started', conversation });
      signal.addEventListener('abort', () => tell({ type: 'aborted', conversation, reason: signal.reason }));
      const outcome = await handler(conversation, signal);
      tell({ type: 'ended', conversation });
      return outcome;
    },
    { concurrency: 10 },
  );
  tell({ type: 'ready' });
}

const [, script, url, lockSeconds] = process.argv;
if (script === fileURLToPath(import.meta.url) && url && lockSeconds) await main(url, Number(lockSeconds));
