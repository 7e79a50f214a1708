// The sweep: re-wakes every conversation with something to do, at start and then periodically. It makes a lost wake
// harmless; in normal operation it finds nothing that was not woken already.
import type { LaneQueue } from '../ports/lanes.ts';
import type { Logger } from '../ports/log.ts';
import type { ConversationReader } from '../ports/reader.ts';
import { createPasses, type Passes } from '../time/passes.ts';

export interface SweepOptions {
  reader: ConversationReader;
  kind: 'lanes' | 'outbox';
  lanes: LaneQueue;
  intervalMs: number;
  log: Logger;
}

export function createSweep({ reader, kind, lanes, intervalMs, log }: SweepOptions): Passes {
  return createPasses({
    async pass(signal) {
      let woken = 0;
      for await (const conversation of reader.pending(kind)) {
        if (signal.aborted) break;
        await lanes.wake(conversation);
        woken++;
      }
      if (woken > 0) log.debug({ kind, woken }, 'sweep woke pending conversations');
    },
    failed: (error) => log.warn({ kind, error }, 'sweep failed; it is tried again'),
    intervalMs,
  });
}
