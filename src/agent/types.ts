// What goes into a run and what comes out of it. The lane fills the one and merges the other.
import type { AgentSettings } from '../../config/schema.ts';
import type { RunEvent } from '../domain/events.ts';
import type { Attachment, Sender } from '../domain/inbound.ts';
import type { Message, StopReason, Usage } from '../domain/messages.ts';
import type { Language } from '../domain/sentences.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { MediaStore } from '../ports/media.ts';
import type { ModelClient, ModelRequest } from '../ports/model.ts';
import type { JournalEntry } from '../ports/store.ts';
import type { Tool } from '../ports/tool.ts';
import type { Calibration } from './context/calibration.ts';
import type { AgentHooks } from './hooks.ts';
import type { AgentPrompt } from './prompt.ts';

/** `compact`: as HistoryEntry has it. */
export type ContextMessage = Message & { compact?: boolean };

export interface AgentOptions {
  /** The context: history from `contextFrom` on, oldest first. Repaired where it isn't valid; never changed. */
  messages: ContextMessage[];
  /** Sums up what came before messages[0]. */
  summary?: string;
  /** Index of messages[0] in the whole history; default 0. What `AgentResult.context.from` counts from. */
  contextFrom?: number;
  /** The messages that the run answers, oldest first. Resumed: all that the interrupted run had taken. */
  prompts: AgentPrompt[];
  /** Journal of an interrupted run, oldest first: the run goes on where it stopped. Empty or absent: a new run. */
  resume?: JournalEntry[];
  /** No clock and no ids in it: they break prompt caches. */
  system: string;
  tools: Tool[];
  model: ModelClient;
  settings: AgentSettings;
  /** Of the fixed sentences. */
  language: Language;
  base: {
    conversation: string;
    run: string;
    account: string;
    sender: Sender;
    group: boolean;
    cacheKey: string;
  };
  /** Aborted with reason 'cancel': the run ends with the text so far. With any other: it throws RunInterrupted at once. */
  signal: AbortSignal;
  /** Called synchronously, in order; must not throw. `agent_end` is the last, before the commit: hold it back until then. */
  emit(event: RunEvent): void;
  /** Durable when it resolves. A rejection (stale lease, storage down) ends the run with that rejection. */
  journal(entries: JournalEntry[]): Promise<void>;
  /** Messages that arrived during the run, taken for good. May answer empty without asking the store. Rejections end the run. */
  steering(): Promise<AgentPrompt[]>;
  /** Likewise, asked for only when the run would end. */
  followUp(): Promise<AgentPrompt[]>;
  hooks?: AgentHooks;
  thinking?: ModelRequest['thinking'];
  /** An empty answer is an answer (scheduled runs): no retry, no apology, an empty reply. */
  mayBeSilent?: boolean;
  /** Token estimates learned from real usage; one per process, so that the next run knows what this one learned. */
  calibration?: Calibration;
  /** Where tools keep files, and where pictures in their results go. Absent: none can be kept. */
  media?: MediaStore;
  clock: Clock;
  log: Logger;
}

/** A new message of the conversation, oldest first in AgentResult.entries. */
export interface AgentEntry {
  message: Message;
  /** Milliseconds since the epoch. */
  at: number;
  /** Set on user messages that came in as a prompt. */
  id?: string;
  /** Set on assistant messages: the model that answered, and why it stopped. */
  model?: string;
  stop?: StopReason;
  compact?: boolean;
}

export interface AgentResult {
  /** All new messages, valid for every vendor: each tool_use has its result, in order, in the next message. */
  entries: AgentEntry[];
  /** What the user gets: the run's final texts, or a fixed sentence. */
  reply: string;
  /** Files that tools made for people, in order, each once. */
  attachments?: Attachment[];
  /** `failed`: the reply is, or ends with, a sentence that says what went wrong. */
  status: 'done' | 'failed';
  /** Why it failed, for the operator; no secrets. */
  error?: string;
  stop: StopReason;
  usage: Usage;
  turns: number;
  /** The context index moved: history before `from` is covered by `summary`. */
  context?: { from: number; summary?: string };
}
