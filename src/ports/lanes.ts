// LaneQueue only wakes: at most one handler at a time per conversation, as long as no worker stalls (exclusive runs
// are the lease's job). A wake that is lost or doubled is harmless; a wake during a handler causes another one after it.

/** What the handler found: nothing left; more to do now; or come back later (held lease, back-off). */
export type LaneOutcome = 'idle' | 'more' | { retryInMs: number };

/**
 * `signal` aborts with a reason of 'drain' when the process shuts down and the grace is over, or 'lost' when the
 * queue noticed that another worker may have taken over. The handler should not throw; if it does, the lane is retried
 * after a back-off.
 */
export type LaneHandler = (conversation: string, signal: AbortSignal) => Promise<LaneOutcome>;

export interface LaneQueue {
  /** May reject when the queue is unreachable: the caller reports it, the sweep makes good. */
  wake(conversation: string): Promise<void>;
  /** Starts working, once per queue. Resolves when the worker is ready. */
  work(handler: LaneHandler, options: { concurrency: number }): Promise<void>;
  /** Conversations in the queue, those of all processes. Rejects when it is unreachable. */
  depth(): Promise<{ waiting: number; active: number; delayed: number }>;
  /** Takes no more; waits up to graceMs for active handlers, then aborts them with 'drain' and waits for them. Idempotent. */
  close(graceMs: number): Promise<void>;
}
