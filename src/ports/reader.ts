// ConversationReader: what people, the API and the sweep look at. Read-only, never takes a lease; rejects only when
// the storage fails.
import type { Reply } from '../domain/delivery.ts';
import type { HistoryEntry, Usage } from '../domain/messages.ts';

export type MessageState = 'queued' | 'running' | 'done' | 'failed';

export interface MessageStatus {
  state: MessageState;
  /** Set when done or failed. */
  reply?: Reply;
  /** The run that answers or answered it, once taken. */
  run?: string;
}

export interface ConversationState {
  /** Messages waiting in the inbox, those of the active run included. */
  pending: number;
  /** The active run, if its lease is live. */
  run?: string;
  summary?: string;
  /** Number of history entries. */
  length: number;
  usage: Usage;
}

export interface Page<T> {
  items: T[];
  /** Give it back to get the next page; absent on the last. Opaque. */
  cursor?: string;
}

export interface ConversationReader {
  /** Entries oldest first; pages go back in time: the first page holds the newest entries. */
  history(conversation: string, page: { cursor?: string; limit: number }): Promise<Page<HistoryEntry>>;
  state(conversation: string): Promise<ConversationState>;
  /** Undefined if the id was never accepted, or longer ago than the dedupe window. */
  status(conversation: string, messageId: string): Promise<MessageStatus | undefined>;
  /** Conversations by last activity, newest first. */
  list(page: { cursor?: string; limit: number }): Promise<Page<{ id: string; at: number }>>;
  /** Conversations with something to run (`lanes`) or to send (`outbox`), for the sweep; any order. */
  pending(kind: 'lanes' | 'outbox'): AsyncIterable<string>;
}
