// What is to be sent: an entry of the outbox.
import type { Attachment } from './inbound.ts';

export interface Reply {
  /** Markdown. */
  text: string;
  /** Files that go with it, in order: references of the media store (see ports/media.ts), or http(s) URLs. */
  attachments?: Attachment[];
}

/** Plain JSON. Made once, by the commit, so that every attempt carries the same id. */
export interface Delivery {
  /** `<run>.<n>`: stable across attempts, the platform's idempotency key. */
  id: string;
  conversation: string;
  account: string;
  run: string;
  /** Ids of the inbound messages that it answers, oldest first. */
  messages: string[];
  /** From the ReplyTarget of the newest of them. */
  address: Record<string, unknown>;
  /** Of the run. */
  status: 'done' | 'failed';
  reply: Reply;
  /** When it was made: milliseconds since the epoch. */
  at: number;
}

export type DeliveryState = 'pending' | 'parked';

/** A delivery as the API lists it. */
export interface DeliveryRecord extends Delivery {
  state: DeliveryState;
  /** Attempts made so far. */
  attempts: number;
  /** Why the last attempt failed; no secrets, no URLs with secrets. */
  error?: string;
}
