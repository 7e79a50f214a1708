// RunEventLog: the short-lived, resumable stream of run events of each conversation, across processes.
// Best effort by design: what matters for good is in the history and in message statuses, so a reader that was
// away too long gets `resync` and reads those. Nothing here may hold up or fail a run.
import type { RunEvent } from '../domain/events.ts';

export type LoggedEvent =
  /** `id` is opaque, ordered per conversation, and safe as an SSE event id. */
  | { id: string; event: RunEvent }
  /** Events after the given id are gone (trimmed, or the server restarted): read the state anew. `id` is where the stream goes on. */
  | { id: string; resync: true };

export interface EventSubscription extends AsyncIterable<LoggedEvent> {
  close(): Promise<void>;
}

export interface RunEventLog {
  /** Appends, in order. Never rejects: what could not be published is logged, and its readers get `resync`. */
  publish(conversation: string, events: RunEvent[]): Promise<void>;
  /**
   * Resolves when attached: everything published from then on is delivered, after what came since `after` (an id from
   * an earlier event; absent: nothing earlier). In order, without repetition. Ends when closed or aborted.
   * Rejects when the storage fails.
   */
  subscribe(
    conversation: string,
    options: { after?: string; signal: AbortSignal },
  ): Promise<EventSubscription>;

  /**
   * Ids to subscribe after, for a reader that first loads the state: `run` gives what is kept of the newest run from its
   * agent_start on, `end` only what is published from now on. Valid for a conversation without events, too.
   */
  position(conversation: string): Promise<{ run: string; end: string }>;
}
