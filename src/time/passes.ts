// Work that comes round: a pass at once, another one an interval after its end, never two at a time.

export interface Passes {
  /** Starts the first pass. Call it once. */
  start(): void;
  /** Aborts the signal of a pass that is under way and waits for its end. Idempotent. */
  stop(): Promise<void>;
}

export interface PassesOptions {
  pass: (signal: AbortSignal) => Promise<void>;
  /** Told of a pass that rejected; the next one comes all the same. */
  failed: (error: unknown) => void;
  intervalMs: number;
}

export function createPasses({ pass, failed, intervalMs }: PassesOptions): Passes {
  const stopping = new AbortController();
  const { signal } = stopping;
  let timer: NodeJS.Timeout | undefined;
  let current: Promise<void> | undefined;

  function run(): void {
    current = pass(signal)
      .catch(failed)
      .finally(() => {
        // Jitter, so that many processes don't start together.
        if (!signal.aborted) timer = setTimeout(run, intervalMs * (0.75 + Math.random() / 2));
      });
  }

  return {
    start: run,
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await current;
    },
  };
}
