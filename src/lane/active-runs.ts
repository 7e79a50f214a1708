// The runs of this process, by conversation: where signals from other processes arrive.
import type { RunControl } from '../ports/control.ts';

export interface ActiveRun {
  /** The run's id, once claimed. */
  id?: string;
  /** Aborted with 'cancel', 'lost' or 'drain'. */
  controller: AbortController;
  /** A message was appended since the last look: draining is worth a round trip. */
  arrived: boolean;
}

export interface ActiveRuns {
  /** Before the claim, so that no arrival falls into the gap. */
  enter(conversation: string): ActiveRun;
  leave(conversation: string, run: ActiveRun): void;
  close(): void;
}

export function createActiveRuns(control: RunControl): ActiveRuns {
  const runs = new Map<string, ActiveRun>();
  const unsubscribe = control.onSignal((signal) => {
    const run = runs.get(signal.conversation);
    if (!run) return;
    if (signal.type === 'arrived') run.arrived = true;
    // A cancel that was meant for the run before must not hit this one; one that was meant for this one but came
    // before its claim returned is found there, as Snapshot.cancelled.
    else if (signal.run === undefined || signal.run === run.id) run.controller.abort('cancel');
  });
  return {
    enter(conversation) {
      const run: ActiveRun = { controller: new AbortController(), arrived: false };
      runs.set(conversation, run);
      return run;
    },
    leave(conversation, run) {
      if (runs.get(conversation) === run) runs.delete(conversation);
    },
    close: unsubscribe,
  };
}
