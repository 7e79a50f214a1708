// MessageIndex: from a client's message id to its conversation, per account, so that a status can be asked for by id
// and an id that was used before with another body is noticed. Kept for the dedupe window.

export interface IndexedMessage {
  conversation: string;
  /** Hash of the request's body. */
  fingerprint: string;
}

export interface MessageIndex {
  /** Remembers it unless the id is known; returns what was known. Idempotent. */
  remember(account: string, messageId: string, entry: IndexedMessage): Promise<IndexedMessage | undefined>;
  /** Undefined: never seen, or longer ago than the dedupe window. */
  find(account: string, messageId: string): Promise<IndexedMessage | undefined>;
}
