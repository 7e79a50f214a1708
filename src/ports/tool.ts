// Tool: see docs/agent-loop.md and docs/writing-a-tool.md. A tool that throws gives an error result with its message; it never ends a run.
import type { Attachment, Sender } from '../domain/inbound.ts';
import type { ImageBlock, TextBlock } from '../domain/messages.ts';
import type { Logger } from './log.ts';
import type { MediaStore } from './media.ts';

export interface ToolContext {
  conversation: string;
  /** Who sent the newest message of the run. */
  sender: Sender;
  account: string;
  group: boolean;
  /** The call's own id, stable across a resumed run: an idempotency key. */
  callId: string;
  signal: AbortSignal;
  /** Shown to people while the tool runs. */
  progress(text: string): void;
  /** Keeps files; what put() gives is an attachment. */
  media: MediaStore;
  log: Logger;
}

/** Without a `type` it goes by its media type: a picture, a sound, a film, or a file. */
export type ToolAttachment = Omit<Attachment, 'type'> & Partial<Pick<Attachment, 'type'>>;

export interface ToolResult {
  status: 'success' | 'error';
  /** For the model. A picture may be given as base64 `data`: it is put into the media store before it is kept anywhere. */
  content: string | (TextBlock | ImageBlock)[];
  /** Files for people, sent with the run's answer: references of the media store, or http(s) URLs. */
  attachments?: ToolAttachment[];
  /** For people, instead of the raw result. */
  display?: string;
  /** Asks to end the run after this batch; it ends if all results of the batch ask for it. */
  terminate?: boolean;
}

export interface Tool {
  name: string;
  description: string;
  /** JSON Schema of the arguments object (z.toJSONSchema makes one from zod). */
  parameters: Record<string, unknown>;
  /** pre_process (default): offered to the model. post_process: run once after the run, without arguments. */
  stage?: 'pre_process' | 'post_process';
  /** Default sequential: a batch with any sequential call runs in order. */
  execution?: 'sequential' | 'parallel';
  /** True if running it twice is harmless: only then is it run again after a crash in the middle of it. */
  idempotent: boolean;
  timeoutMs?: number;
  execute(args: Record<string, unknown>, context: ToolContext): Promise<ToolResult>;
}

export const success = (
  content: ToolResult['content'],
  more: Omit<ToolResult, 'status' | 'content'> = {},
): ToolResult => ({ status: 'success', content, ...more });

export const fail = (
  content: ToolResult['content'],
  more: Omit<ToolResult, 'status' | 'content'> = {},
): ToolResult => ({ status: 'error', content, ...more });
