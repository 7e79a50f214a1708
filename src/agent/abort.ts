// Stopping a run: one listener on its signal, whatever it waits for. 'cancel' ends it in order, with the text so far;
// any other reason (lost lease, drain) ends it at once.

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

export interface Abort {
  signal: AbortSignal;
  /** Throws Cancelled or RunInterrupted if the signal has aborted. */
  check(): void;
  /** True after a cancel; throws RunInterrupted if the signal has aborted for another reason. */
  cancelled(): boolean;
  /**
   * The work's outcome, or a rejection with Cancelled or RunInterrupted as soon as the signal aborts. Work that is left
   * behind goes on unattended; its failure is reported. `cancellable` false: only an interruption cuts it short.
   */
  race<T>(work: Promise<T>, cancellable?: boolean): Promise<T>;
  /** Calls back once, when the signal aborts. Returns a function that takes it back. */
  onAbort(callback: (stop: Cancelled | RunInterrupted) => void): () => void;
  close(): void;
}

export function createAbort(signal: AbortSignal, reportLate: (error: unknown) => void): Abort {
  // A set of our own: a listener added and removed on the signal for each wait costs several times as much.
  const callbacks = new Set<(stop: Cancelled | RunInterrupted) => void>();
  const stop = () => (signal.reason === 'cancel' ? new Cancelled() : new RunInterrupted(signal.reason));
  const aborted = () => {
    const reason = stop();
    for (const callback of callbacks) callback(reason);
    callbacks.clear();
  };
  signal.addEventListener('abort', aborted, { once: true });

  return {
    signal,
    check() {
      if (signal.aborted) throw stop();
    },
    cancelled() {
      if (!signal.aborted) return false;
      const reason = stop();
      if (reason instanceof RunInterrupted) throw reason;
      return true;
    },
    race: (work, cancellable = true) =>
      new Promise((resolve, reject) => {
        const cut = (reason: Cancelled | RunInterrupted) => {
          if (!cancellable && reason instanceof Cancelled) return;
          left = true;
          reject(reason);
        };
        let left = false;
        if (signal.aborted) cut(stop());
        else callbacks.add(cut);
        work.then(
          (value) => {
            callbacks.delete(cut);
            resolve(value);
          },
          (error: unknown) => {
            callbacks.delete(cut);
            if (left) reportLate(error);
            else reject(error);
          },
        );
      }),
    onAbort(callback) {
      if (signal.aborted) {
        callback(stop());
        return () => {};
      }
      callbacks.add(callback);
      return () => callbacks.delete(callback);
    },
    close() {
      signal.removeEventListener('abort', aborted);
      callbacks.clear();
    },
  };
}
