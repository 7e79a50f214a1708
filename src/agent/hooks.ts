// The nine hooks, all optional, all called in the run's own flow. A hook should not throw; if one does, it is logged and
// the run goes on without it, except that a failed beforeToolCall blocks its call. getSteering and getFollowUp hand
// on what the inbox rejects with (a lost lease).
import type { Message, ToolResultBlock, ToolUseBlock, Usage } from '../domain/messages.ts';
import type { ModelClient, ModelRequest } from '../ports/model.ts';
import type { Tool, ToolResult } from '../ports/tool.ts';
import type { AgentPrompt } from './prompt.ts';

export interface CallInfo {
  call: ToolUseBlock;
  /** Parsed and valid for the tool's schema. */
  args: Record<string, unknown>;
  tool: Tool;
  turn: number;
}

export interface TurnInfo {
  turn: number;
  /** The assistant's message of this turn. */
  message: Message;
  /** Results of its calls, in call order; empty for a text. */
  results: readonly ToolResultBlock[];
  /** What the model saw and did so far, in the model's form. */
  messages: readonly Message[];
  /** Of the run so far. */
  usage: Readonly<Usage>;
}

/** Applies from the next turn on. */
export interface NextTurn {
  model?: ModelClient;
  /** Replaces what the model sees; the history stays as it is. Repaired where it isn't valid. */
  context?: Message[];
  thinking?: ModelRequest['thinking'];
}

export interface AgentHooks {
  /**
   * Before each model call: what the model is to see, in place of `messages` (which must not be changed). Costs a pass
   * over the context each turn, and prompt-cache hits when it changes what was sent before.
   *
   *     transformContext: (messages) => messages.map(maskPhoneNumbers)
   */
  transformContext?(messages: readonly Message[], signal: AbortSignal): Message[] | Promise<Message[]>;

  /**
   * The boundary between our messages and the model's, after transformContext. By default user messages, assistant messages
   * and tool results pass, and nothing else.
   *
   *     convertToModel: (messages) => messages.map(withoutFileBlocks)
   */
  convertToModel?(messages: readonly Message[]): Message[] | Promise<Message[]>;

  /**
   * Before a call whose arguments are valid and that no breaker refused. A block becomes the call's error result. Before a
   * post_process tool too: a block leaves it out.
   *
   *     beforeToolCall: ({ tool, args }) =>
   *       tool.name === 'shell' && /\brm\b/u.test(String(args.command)) ? { block: true, reason: 'Deleting is off.' } : undefined
   */
  beforeToolCall?(
    info: CallInfo,
    signal: AbortSignal,
  ):
    | { block: boolean; reason?: string }
    | undefined
    | Promise<{ block: boolean; reason?: string } | undefined>;

  /**
   * After a call was executed: fields to replace in its result.
   *
   *     afterToolCall: (_info, result) => typeof result.content === 'string' ? { content: redact(result.content) } : undefined
   */
  afterToolCall?(
    info: CallInfo,
    result: ToolResult,
    signal: AbortSignal,
  ): Partial<ToolResult> | undefined | Promise<Partial<ToolResult> | undefined>;

  /**
   * After a turn: another model, context or thinking level for the next ones.
   *
   *     prepareNextTurn: ({ turn }) => turn === 5 ? { model: stronger, thinking: 'high' } : undefined
   */
  prepareNextTurn?(info: TurnInfo): NextTurn | undefined | Promise<NextTurn | undefined>;

  /**
   * After a turn: true ends the run there, as if the model had no more calls; `reply` is added to what the user gets.
   *
   *     shouldStopAfterTurn: ({ usage }) => usage.input + usage.output > 200_000 && { reply: 'Enough for today.' }
   */
  shouldStopAfterTurn?(
    info: TurnInfo,
  ): boolean | { reply: string } | undefined | Promise<boolean | { reply: string } | undefined>;

  /**
   * Before each model call: the key for it. Undefined: the model entry's own.
   *
   *     getApiKey: (model) => vault.read(`llm/${model}`)
   */
  getApiKey?(model: string): string | undefined | Promise<string | undefined>;

  /**
   * A view of the inbox, at turn boundaries and between the calls of a batch: what the model is to see now. Whatever is
   * taken with `inbox()` must be returned, sooner or later; to leave messages waiting, don't call it.
   *
   *     getSteering: async (inbox) => (await calendar.isQuietHour()) ? [] : inbox()
   */
  getSteering?(inbox: () => Promise<AgentPrompt[]>): Promise<AgentPrompt[]>;

  /**
   * Likewise, when the run would end: messages that make it go on.
   *
   *     getFollowUp: async (inbox) => [...(await inbox()), ...testsAreRed() ? [runTheTests] : []]
   */
  getFollowUp?(inbox: () => Promise<AgentPrompt[]>): Promise<AgentPrompt[]>;
}
