// FailedMessages: messages whose run ended as failed, with the error, until somebody has them asked again or the dedupe window
// is over. They get here through ConversationStore.commit only. Rejects only when the storage fails.
import type { InboundMessage } from '../domain/inbound.ts';
import type { Page } from './reader.ts';

export interface FailedMessage extends Pick<
  InboundMessage,
  'id' | 'conversation' | 'account' | 'sender' | 'text'
> {
  run: string;
  /** For the operator; no secrets. */
  error: string;
  /** When it failed: milliseconds since the epoch. */
  at: number;
}

export interface FailedMessages {
  /** The newest failure first. */
  list(page: { cursor?: string; limit: number }): Promise<Page<FailedMessage>>;
  /**
   * Puts the message, as it came, at the end of its conversation's inbox: its status is `queued` again, and its answer goes
   * where the first one went. False if it isn't here (any more).
   */
  retry(conversation: string, messageId: string): Promise<boolean>;
}
