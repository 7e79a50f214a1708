// What a test started is ended after it, newest first.
import { afterEach } from 'vitest';

export interface Cleanups {
  /** Called afterwards. */
  later(cleanup: () => unknown): void;
  /** Closed afterwards. */
  track<T extends { close(): Promise<unknown> }>(thing: T): T;
}

/** For a test file, once, at its top; with afterAll, for what the tests of a file or of a `describe` share. */
export function useCleanups(after: (cleanUp: () => Promise<void>) => void = afterEach): Cleanups {
  const cleanups: (() => unknown)[] = [];
  after(async () => {
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
