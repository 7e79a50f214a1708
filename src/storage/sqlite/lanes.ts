// The in-process LaneQueue: woken conversations wait in line, one handler each. It keeps something only for a
// conversation that waits, runs or is delayed; a wake that is lost with the process is made good by the sweep.
import type { LaneHandler, LaneOutcome, LaneQueue } from '../../ports/lanes.ts';
import type { Logger } from '../../ports/log.ts';

export interface LocalLanesOptions {
  log: Logger;
  /** Back-off after a handler threw: doubled each time, up to the maximum. */
  backoffMs?: number;
  maxBackoffMs?: number;
}

/** The longest delay that a timer can take. */
const MAX_DELAY_MS = 2 ** 31 - 1;

interface Active {
  controller: AbortController;
  /** Woken while its handler ran. */
  again: boolean;
}

export function createLocalLanes({
  log,
  backoffMs = 100,
  maxBackoffMs = 30_000,
}: LocalLanesOptions): LaneQueue {
  // A conversation is in one of these three at most.
  const waiting = new Set<string>();
  const active = new Map<string, Active>();
  const delayed = new Map<string, NodeJS.Timeout>();
  /** How many times in a row its handler has thrown. */
  const failures = new Map<string, number>();

  let work: { handler: LaneHandler; concurrency: number } | undefined;
  let closing: Promise<void> | undefined;
  let onIdle: (() => void) | undefined;

  function enqueue(conversation: string): void {
    waiting.add(conversation);
    pump();
  }

  function pump(): void {
    if (work === undefined || closing !== undefined) return;
    for (const conversation of waiting) {
      if (active.size >= work.concurrency) return;
      waiting.delete(conversation);
      const lane: Active = { controller: new AbortController(), again: false };
      active.set(conversation, lane);
      run(work.handler, conversation, lane).catch((error: unknown) => {
        log.error({ err: error, conversation }, 'The lane scheduler failed; please report this.');
      });
    }
  }

  async function run(handler: LaneHandler, conversation: string, lane: Active): Promise<void> {
    const outcome = await settle(handler, conversation, lane.controller.signal);
    active.delete(conversation);
    if (closing !== undefined) {
      if (active.size === 0) onIdle?.();
      return;
    }
    if (typeof outcome === 'object') delay(conversation, outcome.retryInMs);
    else if (outcome === 'more' || lane.again) waiting.add(conversation);
    pump();
  }

  /** The handler's outcome; a back-off if it threw. */
  async function settle(
    handler: LaneHandler,
    conversation: string,
    signal: AbortSignal,
  ): Promise<LaneOutcome> {
    try {
      const outcome = await handler(conversation, signal);
      failures.delete(conversation);
      return outcome;
    } catch (error) {
      const failed = (failures.get(conversation) ?? 0) + 1;
      failures.set(conversation, failed);
      const retryInMs = Math.min(backoffMs * 2 ** (failed - 1), maxBackoffMs);
      log.error({ err: error, conversation, failed, retryInMs }, 'A lane handler failed; it is tried again.');
      return { retryInMs };
    }
  }

  function delay(conversation: string, ms: number): void {
    const timer = setTimeout(
      () => {
        delayed.delete(conversation);
        enqueue(conversation);
      },
      Math.min(Math.max(ms, 0), MAX_DELAY_MS),
    );
    delayed.set(conversation, timer);
  }

  async function drain(graceMs: number): Promise<void> {
    for (const timer of delayed.values()) clearTimeout(timer);
    delayed.clear();
    waiting.clear();
    failures.clear();
    if (active.size === 0) return;
    const idle = new Promise<void>((resolve) => {
      onIdle = resolve;
    });
    const timer = setTimeout(
      () => {
        for (const { controller } of active.values()) controller.abort('drain');
      },
      Math.min(graceMs, MAX_DELAY_MS),
    );
    try {
      await idle;
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    async wake(conversation) {
      if (closing !== undefined) return;
      const lane = active.get(conversation);
      if (lane !== undefined) lane.again = true;
      else if (!delayed.has(conversation)) enqueue(conversation);
    },

    async work(handler, { concurrency }) {
      if (work !== undefined) throw new Error('work() was called twice on one queue');
      work = { handler, concurrency };
      pump();
    },

    async depth() {
      return { waiting: waiting.size, active: active.size, delayed: delayed.size };
    },

    close(graceMs) {
      closing ??= drain(graceMs);
      return closing;
    },
  };
}
