// Reaching a run: in one process a signal is a function call. The durable mark is the conversation row's `cancelled`.
import type { Logger } from '../../ports/log.ts';
import type { RunControl } from '../../ports/control.ts';
import type { Conversations } from './conversations.ts';
import type { Database } from './database.ts';

type SignalHandler = Parameters<RunControl['onSignal']>[0];
export type RunSignal = Parameters<SignalHandler>[0];

export interface Signals {
  on: RunControl['onSignal'];
  /** After the commit of what is told. Never throws. */
  emit(signal: RunSignal): void;
}

export function createSignals(log: Logger): Signals {
  const handlers = new Set<{ handle: SignalHandler }>();
  return {
    on(handle) {
      const entry = { handle };
      handlers.add(entry);
      return () => {
        handlers.delete(entry);
      };
    },

    emit(signal) {
      for (const { handle } of handlers) {
        try {
          handle(signal);
        } catch (error) {
          log.error(
            { err: error, signal: signal.type },
            'A handler of run signals failed; please report this.',
          );
        }
      }
    },
  };
}

export function createControl(db: Database, conversations: Conversations, signals: Signals): RunControl {
  const mark = db.prepare('UPDATE conversations SET cancelled = 1 WHERE key = ?');

  return {
    async cancel(conversation) {
      const run = await db.write(() => {
        const row = conversations.find(conversation);
        if (row === undefined || row.run === null) return undefined;
        mark.run(row.key);
        return row.run;
      });
      if (run !== undefined) signals.emit({ type: 'cancel', conversation, run });
      return run;
    },

    onSignal: signals.on,
  };
}
