// The events of a run: what the console, SSE clients, drafts and metrics see, from any process.
import type { Attachment } from './inbound.ts';
import type { Message, StopReason, ToolResultBlock, ToolUseBlock, Usage } from './messages.ts';

/** Every event carries these; `turn` is 0 outside a turn. */
export interface EventBase {
  conversation: string;
  run: string;
  turn: number;
}

export type RunEventBody =
  /**
   * `messages`: ids of the inbound messages that started the run. `resumed`: it goes on from the journal of a dead worker, and
   * what was announced stays. The same run again without it starts from nothing: forget what was shown of it.
   */
  | { type: 'agent_start'; messages: string[]; resumed?: boolean }
  | { type: 'turn_start' }
  | { type: 'message_start'; role: 'user' | 'assistant'; id?: string }
  /** Text to append to the assistant message that is being streamed. */
  | { type: 'message_update'; delta: string }
  /** Reasoning to append. */
  | { type: 'reasoning_update'; delta: string }
  | { type: 'message_end'; message: Message; id?: string; usage?: Usage }
  /** Forget what was streamed of the current assistant message: it starts again (a retry after partial output). */
  | { type: 'message_reset' }
  | { type: 'tool_execution_start'; call: ToolUseBlock }
  | { type: 'tool_execution_progress'; call_id: string; text: string }
  | {
      type: 'tool_execution_end';
      call_id: string;
      name: string;
      result: ToolResultBlock;
      /** For people. */
      display?: string;
      duration_ms: number;
      /** Characters of text in the result, before it was cut. */
      result_chars?: number;
    }
  /** Ids of inbound messages taken into the running run. */
  | { type: 'steered'; messages: string[] }
  | { type: 'turn_end'; stop: StopReason; usage?: Usage; model?: string }
  /** Older turns left the context: how many messages, and whether a summary takes their place. */
  | { type: 'compacted'; dropped: number; summary: boolean }
  /** `code` is from the error catalogue or names a fixed sentence; `message` is the sentence that the user gets. */
  | { type: 'error'; code: string; message: string }
  | { type: 'agent_cancelled' }
  /** The last event of a run, published after its commit. `reply` is what the user gets. */
  | {
      type: 'agent_end';
      status: 'done' | 'failed';
      reply: string;
      /** Files that go with it. */
      attachments?: Attachment[];
      stop: StopReason;
      usage: Usage;
      turns: number;
    };

export type RunEvent = EventBase & RunEventBody;
