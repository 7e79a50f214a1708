// What a test started is ended after it, newest first.
import { afterEach } from 'vitest';

export interface Cleanups {
  /** Called after the test. */
  later(cleanup: () => unknown): void;
  /** Closed after the test. */
  track<T extends { close(): Promise<unknown> }>(thing: T): T;
}

/** For a test file, once, at its top. */
export function useCleanups(): Cleanups {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
  });
  const later: Cleanups['later'] = (cleanup) => void cleanups.push(cleanup);
  return {
    later,
    track(thing) {
      later(() => thing.close());
      return thing;
    },
  };
}
