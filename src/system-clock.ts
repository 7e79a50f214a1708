// The real clock; tests bring their own.
import type { Clock } from './ports/clock.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  // Not timers/promises: its AbortError, with a stack that nobody reads, costs more than the wait.
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const abort = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal.removeEventListener('abort', abort);
        resolve();
      }, ms);
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort, { once: true });
    }),
};
