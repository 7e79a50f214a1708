// The handlers at work in this process, and when they must stop: 'lost' when BullMQ says that a job's lock is gone, or
// when it could not be renewed for as long as it lasts (Redis away, process stopped); 'drain' at the end.

export interface LaneRun {
  signal: AbortSignal;
}

interface ActiveRun extends LaneRun {
  controller: AbortController;
  jobId: string | undefined;
  /** performance.now(): monotonic. */
  renewedAt: number;
}

export function createRuns(lockMs: number) {
  const runs = new Map<string, ActiveRun>();
  let idle: (() => void)[] = [];
  let watch: NodeJS.Timeout | undefined;

  function lose(run: ActiveRun): void {
    if (!run.signal.aborted) run.controller.abort('lost');
  }

  function look(): void {
    const now = performance.now();
    for (const run of runs.values()) if (now - run.renewedAt > lockMs) lose(run);
  }

  return {
    /** Undefined if the conversation is still at work here: its job was taken over from this very process. */
    enter(conversation: string, jobId: string | undefined): LaneRun | undefined {
      const before = runs.get(conversation);
      if (before) {
        lose(before);
        return undefined;
      }
      const controller = new AbortController();
      const run = { controller, signal: controller.signal, jobId, renewedAt: performance.now() };
      runs.set(conversation, run);
      watch ??= setInterval(look, lockMs / 4);
      return run;
    },

    leave(conversation: string, run: LaneRun): void {
      if (runs.get(conversation) === run) runs.delete(conversation);
      if (runs.size > 0) return;
      clearInterval(watch);
      watch = undefined;
      for (const resolve of idle) resolve();
      idle = [];
    },

    renewed(jobIds: readonly string[]): void {
      const ids = new Set(jobIds);
      const now = performance.now();
      for (const run of runs.values()) if (run.jobId !== undefined && ids.has(run.jobId)) run.renewedAt = now;
    },

    lost(jobIds: readonly string[]): void {
      const ids = new Set(jobIds);
      for (const run of runs.values()) if (run.jobId !== undefined && ids.has(run.jobId)) lose(run);
    },

    abortAll(reason: 'drain'): void {
      for (const { controller, signal } of runs.values()) if (!signal.aborted) controller.abort(reason);
    },

    /** Resolves when no handler is at work. */
    settled(): Promise<void> {
      return runs.size === 0 ? Promise.resolve() : new Promise((resolve) => idle.push(resolve));
    },

    close(): void {
      clearInterval(watch);
    },
  };
}
