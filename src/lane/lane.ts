// The lane handler: who may run a conversation, and for how long. Claim, heartbeat, and what ends a run from outside
// ('cancel', 'lost', 'drain'); the run itself is run.ts. Exclusive because of the lease, not because of the queue.
import type { Config } from '../../config/schema.ts';
import { accountOf } from '../domain/conversation.ts';
import { AppError } from '../domain/errors.ts';
import type { Clock } from '../ports/clock.ts';
import type { RunControl } from '../ports/control.ts';
import type { LaneHandler, LaneOutcome } from '../ports/lanes.ts';
import type { Logger } from '../ports/log.ts';
import type { ConversationStore, Snapshot } from '../ports/store.ts';
import { createActiveRuns, type ActiveRun } from './active-runs.ts';
import { startHeartbeat } from './heartbeat.ts';
import type { Run } from './run.ts';

export type RunEnd = 'committed' | 'lost' | 'drained' | 'error';

export interface LaneOptions {
  store: ConversationStore;
  control: RunControl;
  run: Run;
  /** Read once per run, so that a changed setting applies to the next one. */
  config: () => Config;
  newRunId: () => string;
  clock: Clock;
  log: Logger;
  /** `seconds` from claim to commit. */
  onEnd: (account: string, result: RunEnd, seconds: number) => void;
}

export interface Lane {
  handler: LaneHandler;
  close(): void;
}

/** Runs whose last error is remembered. */
const MAX_ERRORS = 100;
/** While processes of two releases run side by side, one of the later takes it at one of these. */
const NEWER_RETRY_MS = 5_000;

export function createLane(options: LaneOptions): Lane {
  const { store, clock } = options;
  const active = createActiveRuns(options.control);
  /** What ended the newest attempt of a run here, by run id. */
  const errors = new Map<string, string>();

  function remember(run: string, error: unknown): void {
    errors.delete(run);
    errors.set(run, error instanceof AppError ? `${error.code}: ${error.message}` : nameOf(error));
    for (const [oldest] of errors) if (errors.size > MAX_ERRORS) errors.delete(oldest);
  }

  const handler: LaneHandler = async (conversation, signal) => {
    const run = active.enter(conversation);
    const interrupt = () => run.controller.abort(signal.reason);
    if (signal.aborted) interrupt();
    else signal.addEventListener('abort', interrupt, { once: true });
    try {
      return await occupy(conversation, run);
    } finally {
      signal.removeEventListener('abort', interrupt);
      active.leave(conversation, run);
    }
  };

  async function occupy(conversation: string, run: ActiveRun): Promise<LaneOutcome> {
    const config = options.config();
    const leaseMs = config.workers.lock_seconds * 1000;
    const limit = config.agent.max_batch;
    const claim = await store.claim(conversation, { run: options.newRunId(), leaseMs, limit });
    if (claim.status === 'held') return { retryInMs: claim.forMs };
    if (claim.status === 'empty') return 'idle';
    if (claim.status === 'newer') {
      const { version } = claim;
      options.log.error({ conversation, version }, 'left alone: a later release wrote it; run that release');
      return { retryInMs: NEWER_RETRY_MS };
    }
    const { lease, snapshot } = claim;
    const waitMs = debounceMs(snapshot, config.agent.debounce_ms, clock.now());
    if (waitMs > 0) {
      await store.release(lease);
      return { retryInMs: waitMs };
    }

    run.id = lease.run;
    const { controller } = run;
    const account = accountOf(conversation);
    const log = options.log.child({ run: lease.run, conversation });
    const startedAt = performance.now();
    const stopHeartbeat = startHeartbeat({ store, lease, leaseMs, controller, log });
    let end: RunEnd = 'error';
    try {
      const lastError = errors.get(lease.run);
      const outcome = await options.run({ lease, snapshot, run, config, account, lastError, log });
      errors.delete(lease.run);
      end = outcome === 'lost' ? 'lost' : 'committed';
      return outcome === 'lost' ? 'more' : outcome;
    } catch (error) {
      const reason: unknown = controller.signal.reason;
      if (reason === 'drain') {
        end = 'drained';
        log.info({}, 'run handed back: the process is shutting down');
        await store.release(lease);
        return 'more';
      }
      if (reason === 'lost') {
        end = 'lost';
        log.warn({}, 'run stopped: its lease was lost');
        return 'more';
      }
      remember(lease.run, error);
      // Anything else (storage away) leaves the lease to end by itself; the queue comes back after a back-off.
      throw error;
    } finally {
      stopHeartbeat();
      options.onEnd(account, end, (performance.now() - startedAt) / 1000);
    }
  }

  return { handler, close: active.close };
}

/** How long a collecting conversation still waits for more; bounded, so that somebody who never stops typing is answered. */
function debounceMs(snapshot: Snapshot, debounce: number, now: number): number {
  const newest = snapshot.inbox.at(-1);
  if (newest?.busy !== 'collect' || snapshot.journal.length > 0 || snapshot.cancelled) return 0;
  const quietAt = newest.at + debounce;
  const latestAt = snapshot.inbox[0]!.at + 10 * debounce;
  return Math.max(0, Math.min(quietAt, latestAt, now + debounce) - now);
}

/** A message of an error that isn't ours may hold anything: the log has it. */
const nameOf = (error: unknown): string => (error instanceof Error ? error.name : typeof error);
