// Tool timeouts: one wait on the clock for all calls of a run, however many there are, instead of a timer for each.
import type { Clock } from '../ports/clock.ts';

export interface Deadlines {
  /** Calls `expired` once after ms, unless taken back first with the function it returns. */
  watch(ms: number, expired: () => void): () => void;
  /** Ends the wait. */
  close(): void;
}

interface Deadline {
  at: number;
  expired: () => void;
}

export function createDeadlines(clock: Clock, report: (error: unknown) => void): Deadlines {
  const active = new Set<Deadline>();
  let waiting: { until: number; controller: AbortController } | undefined;

  const expire = () => {
    const now = clock.now();
    for (const deadline of active) {
      if (deadline.at > now) continue;
      active.delete(deadline);
      deadline.expired();
    }
  };

  // Wakes at the earliest deadline that it knows of. Calls that ended meanwhile cost nothing: it just waits again.
  const wait = async (until: number, controller: AbortController) => {
    try {
      await clock.sleep(Math.max(0, until - clock.now()), controller.signal);
    } catch (error) {
      if (!controller.signal.aborted) report(error);
      return;
    }
    waiting = undefined;
    expire();
    let next = Infinity;
    for (const deadline of active) next = Math.min(next, deadline.at);
    if (next < Infinity) arm(next);
  };

  const arm = (until: number) => {
    waiting?.controller.abort();
    const controller = new AbortController();
    waiting = { until, controller };
    wait(until, controller).catch(report);
  };

  return {
    watch(ms, expired) {
      const deadline = { at: clock.now() + ms, expired };
      active.add(deadline);
      if (!waiting || waiting.until > deadline.at) arm(deadline.at);
      return () => active.delete(deadline);
    },
    close() {
      waiting?.controller.abort();
      waiting = undefined;
      active.clear();
    },
  };
}
