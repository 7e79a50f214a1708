// Errors that repeat while Redis is away: the first one is logged, then one a minute while they go on, and the recovery.
import type { Logger } from '../../ports/log.ts';

export interface Reporter {
  failed(error: unknown): void;
  recovered(): void;
}

const REPEAT_MS = 60_000;

/** `advice` says what the operator should know or do. */
export function createReporter(log: Logger, fields: Record<string, unknown>, advice: string): Reporter {
  let reportedAt: number | undefined;
  let failures = 0;
  return {
    failed(error) {
      failures++;
      const now = performance.now();
      if (reportedAt !== undefined && now - reportedAt < REPEAT_MS) return;
      reportedAt = now;
      log.error({ ...fields, reason: reasonOf(error), failures }, advice);
    },
    recovered() {
      if (reportedAt !== undefined) log.info({ ...fields, failures }, 'Redis is back');
      reportedAt = undefined;
      failures = 0;
    },
  };
}

/** The text only: ioredis errors carry the command, people's messages and AUTH with its password included. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text = error.message || error.name;
  // "Failed to refresh slots cache": what the last node said tells why.
  const { lastNodeError } = error as Error & { lastNodeError?: unknown };
  return lastNodeError instanceof Error ? `${text} ${lastNodeError.message}` : text;
}
