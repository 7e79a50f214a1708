// Channel: one account on one platform. parse → accept on the way in, deliver on the way out.
import type { Delivery } from '../domain/delivery.ts';
import type { InboundMessage } from '../domain/inbound.ts';

/** What a channel knows of a message; accept() adds the conversation id, the busy mode and the time. */
export interface ChannelMessage {
  /** The platform's message id. */
  id: string;
  /** The platform's chat id. */
  chat: string;
  thread?: string;
  sender: InboundMessage['sender'];
  text: string;
  attachments?: InboundMessage['attachments'];
  group?: boolean;
  /** The bot was addressed (mention, reply to it); always true in direct chats. */
  mentioned?: boolean;
  replyTo?: InboundMessage['replyTo'];
  /** The platform's time, milliseconds since the epoch; default now. */
  at?: number;
}

export type Accepted =
  /** Durable: acknowledge. `id` and `conversation` are where its status is found. */
  | { status: 'queued' | 'duplicate'; id: string; conversation: string }
  /** A command was carried out; `reply` is its answer, for the channel to send at once. */
  | { status: 'command'; conversation: string; reply: string }
  /** Not for the bot (not mentioned, not allowed, its own): acknowledge and forget. */
  | { status: 'ignored'; reason: string };

/** Rejects with AppError 'storage_unavailable' (or 'draining') when the message could not be made durable: do not acknowledge. */
export type Accept = (account: string, message: ChannelMessage) => Promise<Accepted>;

/** `retry`: failed for now. `park`: will not work without somebody's help. `drop`: pointless (message recalled, target gone). */
export type DeliveryResult =
  | { status: 'sent' }
  | { status: 'retry'; error: string; afterMs?: number }
  | { status: 'park' | 'drop'; error: string };

export interface ChannelStatus {
  state: 'starting' | 'connected' | 'waiting_for_login' | 'disconnected' | 'failed' | 'stopped';
  /** What to do, or what is going on; for the operator. */
  detail?: string;
  /** Login QR code's content, while one waits to be scanned. */
  qr?: string;
}

export interface Channel {
  account: string;
  type: string;
  start(): Promise<void>;
  /** Leaves no timer, socket or child behind. Idempotent. */
  stop(): Promise<void>;
  /** Sends once; never throws. A resend carries the same delivery id. */
  deliver(delivery: Delivery, signal: AbortSignal): Promise<DeliveryResult>;
  status(): ChannelStatus;
}
