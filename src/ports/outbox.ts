// Outbox: what is to be sent, in order, one at a time per conversation; the same lease idea as the store.
// Answers enter it through ConversationStore.commit only. Rejects only when the storage fails.
import type { Delivery, DeliveryRecord, DeliveryState } from '../domain/delivery.ts';
import type { Page } from './reader.ts';

export interface DeliveryLease {
  conversation: string;
  deliveryId: string;
  /** Fencing epoch, as for runs. */
  epoch: number;
}

export type DeliveryClaim =
  | { status: 'claimed'; lease: DeliveryLease; delivery: Delivery; attempt: number }
  /** Held by another process, or backing off: come back in about this many milliseconds. */
  | { status: 'wait'; forMs: number }
  | { status: 'empty' };

export interface Outbox {
  /** Claims the oldest pending delivery of the conversation. `attempt` is 1 at first. */
  claim(conversation: string, leaseMs: number): Promise<DeliveryClaim>;
  /** Sent (or given up on purpose): removed. False if stale. `more`: another one waits. */
  settle(lease: DeliveryLease): Promise<{ more: boolean } | false>;
  /** Failed for now: claimable again after delayMs; those behind it wait, so that order is kept. False if stale. */
  retryLater(lease: DeliveryLease, delayMs: number, error: string): Promise<boolean>;
  /** Not tried at all: the same, and this attempt isn't counted. False if stale. */
  postpone(lease: DeliveryLease, delayMs: number, reason: string): Promise<boolean>;
  /** Given up until somebody retries it: listed, and out of the way of those behind it. False if stale. */
  park(lease: DeliveryLease, error: string): Promise<{ more: boolean } | false>;
  /** Page by page; pending ones of a conversation in the order in which they are sent. */
  list(query: { state: DeliveryState; cursor?: string; limit: number }): Promise<Page<DeliveryRecord>>;
  /** Queues what no run has to say (a notice), behind what waits. Durable when it resolves. Not idempotent. */
  add(delivery: Delivery): Promise<void>;
  /** Puts a parked delivery at the end of its conversation's queue with its attempts at 0. Returns the conversation. */
  retry(deliveryId: string): Promise<string | undefined>;
}
