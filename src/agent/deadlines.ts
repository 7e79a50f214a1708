// Tool timeouts: one wait on the clock for all calls of a run, however many there are, instead of a timer for each.
import type { Clock } from '../ports/clock.ts';

export interface Deadline {
  /** Milliseconds since the epoch. */
  atMs: number;
  expired(): void;
}

export interface Deadlines {
  /** Tells it once when its time has come, unless it is removed first. */
  add(deadline: Deadline): void;
  remove(deadline: Deadline): void;
  /** Ends the wait. */
  close(): void;
}

/** A reason of our own: making the default one, an error with a stack, costs more than all the rest. */
const NOT_NEEDED = 'not needed';

export function createDeadlines(clock: Clock, report: (error: unknown) => void): Deadlines {
  const all = new Set<Deadline>();
  let queued = false;
  let waiting: { untilMs: number; controller: AbortController } | undefined;

  // Wakes at the earliest deadline that it knows of. Calls that ended meanwhile cost nothing: it just waits again.
  const wait = async (untilMs: number, controller: AbortController) => {
    try {
      await clock.sleep(Math.max(0, untilMs - clock.now()), controller.signal);
    } catch (error) {
      if (!controller.signal.aborted) report(error);
      return;
    }
    waiting = undefined;
    expire();
  };

  const expire = () => {
    const now = clock.now();
    for (const deadline of all) {
      if (deadline.atMs > now) continue;
      all.delete(deadline);
      deadline.expired();
    }
    arm();
  };

  const arm = () => {
    queued = false;
    let next = Infinity;
    for (const { atMs } of all) next = Math.min(next, atMs);
    if (next >= (waiting?.untilMs ?? Infinity)) return;
    waiting?.controller.abort(NOT_NEEDED);
    const controller = new AbortController();
    waiting = { untilMs: next, controller };
    wait(next, controller).catch(report);
  };

  return {
    add(deadline) {
      all.add(deadline);
      if (queued || (waiting && waiting.untilMs <= deadline.atMs)) return;
      // Not at once: a call that is over by then needs no wait.
      queued = true;
      queueMicrotask(arm);
    },
    remove(deadline) {
      all.delete(deadline);
    },
    close() {
      waiting?.controller.abort(NOT_NEEDED);
      waiting = undefined;
      all.clear();
    },
  };
}
