// ModelClient: one model behind one API. Its contract (after Pi's stream function): never throws and never rejects;
// failure and abort are the last event of the stream. Exactly one `done` or `failed` ends every stream.
import type { ImageBlock, Message, StopReason, TextBlock, ThinkingBlock, Usage } from '../domain/messages.ts';

export interface ToolSpec {
  name: string;
  description: string;
  /** JSON Schema of the arguments object. */
  parameters: Record<string, unknown>;
}

export interface ModelRequest {
  system: string;
  /**
   * Valid for every vendor: pairing complete, roles alternating, first message from the user. The agent's own list: read it
   * during the call, neither change nor keep it.
   */
  messages: Message[];
  /** Sorted by name and frozen for the run. */
  tools: ToolSpec[];
  /** False: the model must answer in text (tools are still sent where the history needs them). */
  allowTools: boolean;
  /** Stable per conversation: prompt-cache routing. */
  cacheKey: string;
  /** Overrides the entry's key for this call (getApiKey hook). */
  apiKey?: string;
  /** Absent: the model's own way. */
  thinking?: 'off' | 'low' | 'medium' | 'high';
}

/** A tool call as the model sent it: the arguments' text is parsed by the agent, which knows about truncation. */
export interface RawToolCall {
  type: 'tool_call';
  id: string;
  name: string;
  arguments: string;
  /** As ToolUseBlock has it. */
  extra?: Record<string, unknown>;
}

export type ReplyBlock = TextBlock | ThinkingBlock | ImageBlock | RawToolCall;

export type ModelErrorKind =
  | 'overflow' // the context is too long
  | 'rate_limit'
  | 'overloaded' // 5xx, 408, 409
  | 'network' // refused, reset, stalled, cut: premature end included
  | 'auth'
  | 'quota' // no credit left
  | 'invalid' // 400 and the like: our request is wrong
  | 'refused'; // content policy

/** `message` is for the operator's log: no key, no URL with secrets, at most 500 characters. */
export interface ModelError {
  kind: ModelErrorKind;
  message: string;
  /** True if the same call may succeed later (kinds rate_limit, overloaded, network). */
  retryable: boolean;
  status?: number;
  retryAfterMs?: number;
}

export type ModelEvent =
  | { type: 'text'; delta: string }
  | { type: 'thinking'; delta: string }
  /** What was streamed so far is void: another attempt starts, or the text turned out to be reasoning and comes again as such. */
  | { type: 'reset' }
  | {
      type: 'done';
      content: ReplyBlock[];
      stop: Exclude<StopReason, 'error' | 'aborted'>;
      usage?: Usage;
      model: string;
    }
  /** `stop` 'aborted' if the signal was aborted, else 'error' with `error`. `content`: what had arrived (text and thinking). */
  | {
      type: 'failed';
      stop: 'error' | 'aborted';
      error?: ModelError;
      content: ReplyBlock[];
      usage?: Usage;
      model: string;
    };

export interface ModelClient {
  /** The entry's name in the configuration. */
  name: string;
  /** Tokens the model takes in all. */
  contextWindow: number;
  /** Tokens it may answer. */
  maxOutputTokens: number;
  /** It can look at pictures; if not, they are named in words. */
  images: boolean;
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent>;
}
