// What goes wrong in a puppet, told to people: a puppet without a network says the same thing hundreds of times a second.
import type { Logger } from '../../src/ports/log.ts';

/** Each kind of trouble is logged once in so long; the puppet is given up when it is in trouble so often in that time. */
const SPAN_MS = 60_000;
const MOST = 60;

export interface Troubles {
  /** True: so often that it is better to start anew. */
  note(reason: string): boolean;
}

export function createTroubles(log: Logger, now: () => number): Troubles {
  const told = new Set<string>();
  let since = -Infinity;
  let count = 0;
  return {
    note(reason) {
      const at = now();
      if (at - since > SPAN_MS) {
        if (count > told.size) log.warn({ times: count }, 'trouble in the puppet, within a minute');
        told.clear();
        since = at;
        count = 0;
      }
      count += 1;
      if (!told.has(reason)) {
        told.add(reason);
        log.warn({ reason }, 'trouble in the puppet');
      }
      return count > MOST;
    },
  };
}
