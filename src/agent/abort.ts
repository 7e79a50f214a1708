// Stopping a run: one listener on its signal, whatever it waits for. 'cancel' ends it in order, with the text so far;
// any other reason (lost lease, drain) ends it at once, from the outside (index.ts), and what is left of it does nothing more.

/** The run stopped in the middle and must not be committed; the reason is the signal's. */
export class RunInterrupted extends Error {
  constructor(reason: unknown) {
    super('The run was interrupted.', { cause: reason });
    this.name = 'RunInterrupted';
  }
}

/** Internal: unwinds to the loop, which ends the run in order. */
export class Cancelled extends Error {
  constructor() {
    super('The run was cancelled.');
    this.name = 'Cancelled';
  }
}

export type Stop = Cancelled | RunInterrupted;

/** Something that is waited for, and what is to happen to it when the run stops. */
export interface Waiting {
  stopped(stop: Stop): void;
}

export interface Abort {
  signal: AbortSignal;
  /** Throws Cancelled or RunInterrupted if the signal has aborted. */
  check(): void;
  /** True after a cancel; throws RunInterrupted if the signal has aborted for another reason. */
  cancelled(): boolean;
  /** Tells it once, when the signal aborts; at once if it has. */
  add(waiting: Waiting): void;
  remove(waiting: Waiting): void;
  /** The work's outcome, or a rejection as soon as the signal aborts. The failure of work left behind is reported. */
  race<T>(work: Promise<T>): Promise<T>;
  close(): void;
}

export function createAbort(signal: AbortSignal, reportLate: (error: unknown) => void): Abort {
  // A set of our own: a listener added and removed on the signal for each wait costs several times as much.
  const all = new Set<Waiting>();
  const stop = () => (signal.reason === 'cancel' ? new Cancelled() : new RunInterrupted(signal.reason));
  const aborted = () => {
    const reason = stop();
    for (const waiting of all) waiting.stopped(reason);
    all.clear();
  };
  signal.addEventListener('abort', aborted, { once: true });

  const abort: Abort = {
    signal,
    check() {
      if (signal.aborted) throw stop();
    },
    cancelled() {
      if (signal.aborted && signal.reason !== 'cancel') throw stop();
      return signal.aborted;
    },
    add(waiting) {
      if (signal.aborted) waiting.stopped(stop());
      else all.add(waiting);
    },
    remove(waiting) {
      all.delete(waiting);
    },
    race: (work) =>
      new Promise((resolve, reject) => {
        const waiting = { stopped: reject };
        abort.add(waiting);
        work
          .finally(() => abort.remove(waiting))
          .then(resolve, (error: unknown) => {
            if (signal.aborted) reportLate(error);
            reject(error);
          });
      }),
    close() {
      signal.removeEventListener('abort', aborted);
      all.clear();
    },
  };
  return abort;
}
