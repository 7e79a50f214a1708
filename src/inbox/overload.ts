// Overload: how much may wait, in all and behind this process's event loop, before a message is refused instead of
// accepted. How much may wait in one conversation is the store's to say, in the same step that would add the message.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Config } from '../../config/schema.ts';
import { AppError } from '../domain/errors.ts';
import type { LaneQueue } from '../ports/lanes.ts';
import type { Logger } from '../ports/log.ts';

export type OverloadSettings = Config['server']['overload'];

export interface Overload {
  /**
   * Lets one message in until it is disposed of, which is when it waits in its lane. Rejects with AppError 'overloaded',
   * or as the queue does.
   */
  admit(): Promise<Disposable>;
}

export interface OverloadOptions {
  lanes: Pick<LaneQueue, 'depth'>;
  settings: () => OverloadSettings;
  loopDelayMs: () => number;
  log: Logger;
}

const RETRY_AFTER_MS = 5_000;
/** The queue is asked anew after this part of what may wait was let in: other processes let messages in as well. */
const ASK_AFTER = 0.1;

export function createOverload({ lanes, settings, loopDelayMs, log }: OverloadOptions): Overload {
  /** Conversations that waited when the queue was asked, and messages let in since. */
  let waiting: number | undefined;
  let since = 0;
  /** Let in, and maybe not in the queue yet. */
  let entering = 0;
  let asking: Promise<void> | undefined;
  let refusing = false;

  async function ask(): Promise<void> {
    const depth = await lanes.depth();
    waiting = depth.waiting + depth.active + depth.delayed;
    since = entering;
  }

  /** Says so once, not for every message. */
  function tell(reason: string | undefined): void {
    if (refusing === (reason !== undefined)) return;
    refusing = reason !== undefined;
    if (reason === undefined) log.info({}, 'messages are accepted again');
    else log.warn({ reason }, 'messages are refused: too much waits');
  }

  function refuse(reason: string): never {
    tell(reason);
    throw new AppError('overloaded', `${reason} Nothing was accepted.`, { retryAfterMs: RETRY_AFTER_MS });
  }

  return {
    async admit() {
      const { conversations, event_loop_delay_ms } = settings();
      if (event_loop_delay_ms > 0 && loopDelayMs() > event_loop_delay_ms)
        refuse('This process is far behind with its work.');
      if (conversations > 0) {
        const full = () => waiting === undefined || waiting + since >= conversations;
        if (full() || since >= conversations * ASK_AFTER)
          await (asking ??= ask().finally(() => (asking = undefined)));
        if (full()) refuse(`${conversations} conversations wait already.`);
      }
      tell(undefined);
      since += 1;
      entering += 1;
      return { [Symbol.dispose]: () => void (entering -= 1) };
    },
  };
}

/** Behind by more than this, a timer is late. */
const RESOLUTION_MS = 20;
const WINDOW_MS = 1_000;

/** How late this process's timers were of late, on average; measured by the runtime, read at most once a second. */
export function createLoopDelay() {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  let readAt = performance.now();
  let delayMs = 0;

  return {
    ms(): number {
      const now = performance.now();
      if (now - readAt < WINDOW_MS) return delayMs;
      readAt = now;
      // NaN until the first tick. The histogram counts whole intervals, the planned part included.
      delayMs = Number.isNaN(histogram.mean) ? 0 : Math.max(0, histogram.mean / 1e6 - RESOLUTION_MS);
      histogram.reset();
      return delayMs;
    },
    close(): void {
      histogram.disable();
    },
  };
}
