// ConversationStore: the truth. Inbox, lease, journal and history of each conversation; what a lane works with.
//
// Every operation is atomic (one Lua script on Redis, one SQL transaction on SQLite), costs as much as what is
// new, and rejects only when the storage itself fails (AppError 'storage_unavailable'): a refusal is a value.
// Time is the store's own clock. Both implementations pass test/contract/suites/store.ts.
import type { Delivery, Reply } from '../domain/delivery.ts';
import type { InboundMessage } from '../domain/inbound.ts';
import type { HistoryEntry, Message, Usage } from '../domain/messages.ts';

/** The right to run one conversation. The epoch makes it safe, the time makes it live. */
export interface Lease {
  conversation: string;
  run: string;
  /** Fencing epoch: rises with each claim; a lower one is stale. */
  epoch: number;
  /** Raised by each reset: entries of a run from before a reset are not merged. */
  generation: number;
}

/** One step of an active run, kept until its commit. Plain JSON; `v` is the format's version. */
export type JournalEntry =
  | { v: 1; kind: 'assistant'; message: Message; model?: string; stop?: string; usage?: Usage }
  /** The result of one call, as soon as it is there, as a content block. `terminate`: it asked to end the run. */
  | { v: 1; kind: 'tool_result'; call_id: string; block: Message['content'][number]; terminate?: boolean }
  /**
   * A call that was about to be executed, so that a resumed run knows what may have taken effect. `idempotent`: running
   * it twice is harmless, so that this entry may be lost in a power cut.
   */
  | { v: 1; kind: 'tool_start'; call_id: string; idempotent?: boolean }
  /** Inbound messages (by id) taken into the run at this point; the first of a journal: those that it started with. */
  | { v: 1; kind: 'steered'; messages: string[] };

export interface Snapshot {
  /** History from the context index on, oldest first. */
  context: HistoryEntry[];
  /** Index of context[0] in the whole history; entries before it are covered by the summary. */
  contextFrom: number;
  summary?: string;
  /** The inbox messages this run answers, oldest first (resumed run: those that the interrupted run had taken). */
  inbox: InboundMessage[];
  /** The journal of an interrupted run, oldest first; empty for a new run. */
  journal: JournalEntry[];
  /** How many times this run was claimed without being committed or released, this one included: 1 for a new run. */
  attempt: number;
  /** A cancel was asked for and not yet carried out: commit as cancelled without running. */
  cancelled: boolean;
}

export type ClaimResult =
  | { status: 'claimed'; lease: Lease; snapshot: Snapshot }
  /** Another lease is live for about this many milliseconds. Nothing changed. */
  | { status: 'held'; forMs: number }
  /** A later release wrote what is to be run, in a format of that version. Nothing changed: it is left to that release. */
  | { status: 'newer'; version: number }
  /** Nothing waits. Nothing changed. */
  | { status: 'empty' };

export interface Merge {
  /** Appended to the history; dropped if the conversation was reset since the claim. */
  entries: HistoryEntry[];
  /** Put into the outbox in this order. */
  deliveries: Delivery[];
  /**
   * Becomes the status of every message the run took. Those that failed are kept with `error`, for the operator
   * (FailedMessages).
   */
  outcome: { status: 'done' | 'failed'; reply: Reply; error?: string };
  /** Moves the context index and replaces the summary; the history itself is never rewritten. */
  context?: { from: number; summary?: string };
  /** Added to the conversation's totals. */
  usage?: Usage;
}

export interface ConversationStore {
  /**
   * Adds a message to the inbox unless its id was seen within the dedupe window, and marks the conversation
   * pending. Durable when it resolves. Idempotent. `full`: nothing was added, since `maxWaiting` messages wait there
   * already, those of the active run included; 0: any number may.
   */
  append(
    message: InboundMessage,
    options?: { maxWaiting?: number },
  ): Promise<{ duplicate: boolean; full?: true }>;

  /**
   * Claims the conversation for a run, if no live lease is held and something waits. Takes the oldest message and,
   * while they may join (see joins()), those after it, up to `limit`. A run that was interrupted is resumed: its own
   * run id (in the lease), its messages and its journal come back; if it had journaled nothing yet, messages that may
   * join and came meanwhile are taken as well.
   */
  claim(conversation: string, options: { run: string; leaseMs: number; limit: number }): Promise<ClaimResult>;

  /** Heartbeat: extends a live lease by leaseMs from now. Undefined if stale; `cancelled` if a cancel was asked for. */
  renew(lease: Lease, leaseMs: number): Promise<{ cancelled: boolean } | undefined>;

  /** Hands an unfinished run back at once (drain): journal and messages stay, its attempt is not counted. False if stale. */
  release(lease: Lease): Promise<boolean>;

  /** Appends steps to the run's journal, in order. False if stale (nothing is written). */
  journal(lease: Lease, entries: JournalEntry[]): Promise<boolean>;

  /**
   * Takes up to `limit` waiting messages that may join into the run (steering), up to the first that may not.
   * Undefined if stale, and so it becomes if a later release wrote one of them. A resumed run gets them again in Snapshot.inbox.
   */
  drain(lease: Lease, limit: number): Promise<InboundMessage[] | undefined>;

  /**
   * Merges, all at once: history appended, taken messages consumed and given their status, deliveries queued,
   * journal cleared, lease ended. False if stale: nothing changed. `more`: messages wait for the next run.
   */
  commit(lease: Lease, merge: Merge): Promise<{ more: boolean } | false>;

  /**
   * Starts the conversation over: history, summary and journal are emptied. An active or interrupted run is
   * cancelled: it still gives its messages their outcome, but merges no history. Returns the cancelled run's id.
   */
  reset(conversation: string): Promise<{ cancelledRun?: string }>;
}
