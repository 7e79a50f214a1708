// The real clock; tests bring their own.
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from './ports/clock.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  async sleep(ms, signal) {
    signal.throwIfAborted();
    try {
      await delay(ms, undefined, { signal });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  },
};
