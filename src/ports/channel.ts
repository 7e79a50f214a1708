// Channel: one account on one platform. parse → accept on the way in, deliver on the way out.
import type { Delivery } from '../domain/delivery.ts';
import type { Attachment, ReplyTarget, Sender } from '../domain/inbound.ts';

/** What a channel knows of a message; accept() adds the conversation id, the busy mode and the time. */
export interface ChannelMessage {
  /** The platform's message id. */
  id: string;
  /** The platform's chat id. */
  chat: string;
  /** The platform's id of the thread in it. */
  thread?: string;
  sender: Sender;
  text: string;
  /** The message that it quotes, as Markdown: told to the model before the text, but no part of what was asked. */
  quote?: string;
  attachments?: Attachment[];
  /** Said among several people. */
  group?: boolean;
  /** The bot was addressed (mention, reply to it); always true in direct chats. */
  mentioned?: boolean;
  replyTo?: ReplyTarget;
  /** The platform's time, milliseconds since the epoch; default now. */
  at?: number;
}

export type Accepted =
  /** Durable: acknowledge. `id` and `conversation` are where its status is found. */
  | { status: 'queued' | 'duplicate'; id: string; conversation: string }
  /**
   * Answered without a run, for the channel to send at once: a command that was carried out, or a stranger's pairing
   * code. `repeated`: the same message was answered before.
   */
  | { status: 'command'; conversation: string; reply: string; repeated?: boolean }
  /** Not for the bot (not mentioned, not allowed, its own): acknowledge and forget. */
  | { status: 'ignored'; reason: string };

/**
 * Rejects with AppError 'storage_unavailable', 'draining', 'overloaded' or 'conversation_full' when the message was not made
 * durable: do not acknowledge.
 */
export type Accept = (account: string, message: ChannelMessage) => Promise<Accepted>;

/** `retry`: failed for now. `park`: will not work without somebody's help. `drop`: pointless (message recalled, target gone). */
export type DeliveryResult =
  | { status: 'sent' }
  | { status: 'retry'; error: string; afterMs?: number }
  /** Not tried: the account can't send now, whatever the delivery (nobody is logged in). Counts as no attempt. */
  | { status: 'wait'; error: string; afterMs: number }
  | { status: 'park' | 'drop'; error: string };

export interface ChannelStatus {
  state: 'starting' | 'connected' | 'waiting_for_login' | 'disconnected' | 'failed' | 'stopped';
  /** What to do, or what is going on; for the operator. */
  detail?: string;
  /** Login QR code's content, while one waits to be scanned. */
  qr?: string;
  /** What enterCode() waits for: the code that the phone shows while somebody logs in. */
  asks?: 'code';
}

/** Small facts of one account that outlive the process: kept for the dedupe window; the first value of a key wins. */
export interface ChannelMemory {
  remember(key: string, value: string): Promise<void>;
  /** Undefined: never remembered, or forgotten. */
  find(key: string): Promise<string | undefined>;
}

/** A run at work, as far as a channel may show it. */
export interface LiveRun {
  id: string;
  conversation: string;
  /** The id that the delivery of its answer will carry. */
  delivery: string;
  /** Ids of the messages that started it, oldest first. */
  messages: string[];
  /** Of the oldest one's ReplyTarget. */
  address: Record<string, unknown>;
}

export interface LiveState {
  /** What the model has written of its current message. */
  text: string;
  /** The tool that is running. */
  tool?: string;
}

/** Shows runs while they work. Calls for one run come one at a time; a rejection is reported and otherwise ignored. */
export interface LiveView {
  /** Least time between two updates of a run. */
  intervalMs: number;
  started(run: LiveRun): Promise<void>;
  /** Always the whole state; states between two updates are skipped. */
  update(run: LiveRun, state: LiveState): Promise<void>;
  /** Ended, or lost sight of. Its answer comes through deliver(), which may be before or after this. */
  ended(run: LiveRun): Promise<void>;
}

/** A request that the platform made to `POST /channels/:account/events`. Header names are in lower case. */
export interface PushRequest {
  headers: Record<string, string | undefined>;
  body: Uint8Array;
}

export interface PushAnswer {
  status: number;
  body: Record<string, unknown>;
}

export interface Channel {
  account: string;
  type: string;
  /** Begins to connect, and goes on trying until stop(). Idempotent; not again after stop(). */
  start(): Promise<void>;
  /** Leaves no timer, socket or child behind. Idempotent. */
  stop(): Promise<void>;
  /** Sends once; never rejects. A resend carries the same delivery id. */
  deliver(delivery: Delivery, signal: AbortSignal): Promise<DeliveryResult>;
  status(): ChannelStatus;
  /** Absent: people see nothing until the answer is delivered. */
  live?: LiveView;
  /** For the doctor: what the platform says of the account, and what to do. Works without start(); never rejects. */
  check?(): Promise<{ state: 'ok' | 'note' | 'wrong'; text: string }[]>;
  /** Takes what the platform pushes over HTTP, after checking that it is the platform. Never rejects. */
  receive?(request: PushRequest): Promise<PushAnswer>;
  /** Takes the code that status().asks is for. Rejects with AppError 'conflict' if none is asked for. */
  enterCode?(code: string): Promise<void>;
  /** The platform's ids of this account itself, once known: no account of this server answers what they write. */
  botIds?(): readonly string[];
}
