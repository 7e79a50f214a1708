// The sweep: re-wakes every conversation with something to do, at start and then periodically. It makes a lost wake
// harmless; in normal operation it finds nothing that was not woken already.
import type { LaneQueue } from '../ports/lanes.ts';
import type { Logger } from '../ports/log.ts';
import type { ConversationReader } from '../ports/reader.ts';

export interface Sweep {
  /** One pass; resolves with the number of conversations woken. */
  once(): Promise<number>;
  /** Starts the periodic passes, the first one at once. */
  start(): void;
  /** Idempotent; waits for a pass that is under way. */
  stop(): Promise<void>;
}

export interface SweepOptions {
  reader: ConversationReader;
  kind: 'lanes' | 'outbox';
  lanes: LaneQueue;
  intervalMs: number;
  log: Logger;
}

export function createSweep({ reader, kind, lanes, intervalMs, log }: SweepOptions): Sweep {
  let timer: NodeJS.Timeout | undefined;
  let pass: Promise<void> | undefined;
  let stopped = false;

  async function once(): Promise<number> {
    let woken = 0;
    for await (const conversation of reader.pending(kind)) {
      if (stopped) break;
      await lanes.wake(conversation);
      woken++;
    }
    return woken;
  }

  function run(): void {
    pass = once()
      .then((woken) => {
        if (woken > 0) log.debug({ kind, woken }, 'sweep woke pending conversations');
      })
      .catch((error: unknown) => log.warn({ kind, error }, 'sweep failed; it is tried again'))
      .finally(() => {
        // Jitter, so that many processes don't sweep together.
        if (!stopped) timer = setTimeout(run, intervalMs * (0.75 + Math.random() / 2));
      });
  }

  return {
    once,
    start: run,
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await pass;
    },
  };
}
