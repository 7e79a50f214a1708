// The words of a conversation: content blocks and messages, in Claude's shape whatever vendor produced them.
// Stored in histories and journals, shown by the API.
import type { Attachment, Note, Sender } from './inbound.ts';

export interface TextBlock {
  type: 'text';
  text: string;
}

/**
 * A model's reasoning. Signed blocks are never altered; `field` is the wire name it came under, set if the vendor may
 * want it back: then it is kept whole.
 */
export interface ThinkingBlock {
  type: 'thinking';
  thinking: string;
  signature?: string;
  /** Encrypted reasoning (Anthropic `redacted_thinking`): opaque, echoed verbatim. */
  redacted?: string;
  /** Name of the model that produced it: reasoning is only ever returned to the same model. */
  model?: string;
  field?: string;
}

export interface ToolUseBlock {
  type: 'tool_use';
  id: string;
  name: string;
  input: Record<string, unknown>;
  /** Vendor data that must be echoed verbatim with the call (Gemini thought signatures). */
  extra?: Record<string, unknown>;
}

export interface ToolResultBlock {
  type: 'tool_result';
  tool_use_id: string;
  content: string | (TextBlock | ImageBlock)[];
  is_error?: boolean;
  /** Files that the tool made for people: they go with the run's answer. The model isn't shown them. */
  attachments?: Attachment[];
}

/** A picture by reference: the media store's (see ports/media.ts), an http(s) URL, or (in requests only) inline base64 `data`. */
export interface ImageBlock {
  type: 'image';
  media_type: string;
  ref?: string;
  data?: string;
  /** Size in bytes, where known. */
  size?: number;
}

export interface FileBlock {
  type: 'file';
  media_type: string;
  name: string;
  ref: string;
  /** Size in bytes, where known. */
  size?: number;
}

export type Block = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | FileBlock;

export interface Message {
  role: 'user' | 'assistant';
  content: Block[];
}

/** A message as the history keeps it. Never rewritten once committed. */
export interface HistoryEntry extends Message {
  /** When it was received or produced: milliseconds since the epoch. */
  at: number;
  /** The run that merged it. */
  run: string;
  /** Id of the inbound message that a user entry came from; absent on tool results and assistant entries. */
  id?: string;
  /** Who said it, on user entries that came from an inbound message. */
  sender?: Sender;
  /** What others said in the group before it: shown to the model with this entry, and not its sender's words. */
  notes?: Note[];
  /** Set on assistant entries: the model entry that produced it and why it stopped. */
  model?: string;
  stop?: StopReason;
  /** The model found the context too long here: the next run sums up what is before it, and itself. */
  compact?: boolean;
}

/** `stop`, `length`, `tool_use` come from the model; `error` and `aborted` are put there by our model layer. */
export type StopReason = 'stop' | 'length' | 'tool_use' | 'error' | 'aborted';

/** Tokens of one or more model calls. `input` includes the cached ones. */
export interface Usage {
  input: number;
  output: number;
  cached: number;
}

/** The text blocks of it, joined; other blocks are left out. */
export function textOf(content: string | readonly Block[]): string {
  if (typeof content === 'string') return content;
  let text = '';
  for (const block of content) if (block.type === 'text') text += block.text;
  return text;
}
