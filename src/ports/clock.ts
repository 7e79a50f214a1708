// Clock: the only way the agent and the model layer wait, so that tests need no timers.

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts. Leaves no timer or listener behind. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}
