// What a channel hands to accept(): one message from a person or program, and where its answer goes.

/** Who wrote a message. */
export interface Sender {
  /** The platform's id, of which only its own account knows the meaning. */
  id: string;
  /** As people see it. */
  name?: string;
  /** A program, as far as the platform tells. */
  bot?: boolean;
}

/** Something said in a group that did not ask the bot. */
export interface Note {
  /** The platform's message id. */
  id: string;
  /** Milliseconds since the epoch. */
  at: number;
  sender: Sender;
  text: string;
}

export interface Attachment {
  type: 'image' | 'file' | 'audio' | 'video';
  /** A reference of the media store (see ports/media.ts), or an http(s) URL. Never base64. */
  ref: string;
  media_type?: string;
  name?: string;
  /** In bytes, where known. */
  size?: number;
}

/** What a message does when it meets an active run of its conversation. See docs/agent-loop.md, busy modes. */
export type BusyMode = 'steer' | 'followup' | 'collect' | 'interrupt';

/**
 * Where an answer goes. Absent when nobody is to be called back (the web page and waiting HTTP clients read
 * events and the message's status instead).
 */
export interface ReplyTarget {
  /** Messages of one run with the same key share one delivery; the newest message's address is used. */
  key: string;
  /** The adapter's own address, opaque to everybody else; plain JSON. */
  address: Record<string, unknown>;
}

/** A durable inbox entry: plain JSON. */
export interface InboundMessage {
  /** Unique within the conversation: the platform's message id. Duplicates are dropped by it. */
  id: string;
  conversation: string;
  /** The channel account that received it. */
  account: string;
  /** Milliseconds since the epoch. */
  at: number;
  sender: Sender;
  text: string;
  attachments?: Attachment[];
  group?: boolean;
  busy: BusyMode;
  replyTo?: ReplyTarget;
  /** What was said in the group since the bot was last asked, oldest first: for the model, not the sender's words. */
  notes?: Note[];
}

/** True if the message may share a run, and its answer, with messages before it. */
export const joins = (message: InboundMessage): boolean => message.busy !== 'followup';
