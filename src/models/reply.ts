// Model layer: the reply as it grows. Both clients put what arrives in here; it keeps the blocks in order and says which
// events the agent gets.
import type { ThinkingBlock, Usage } from '../domain/messages.ts';
import type { ModelEvent, RawToolCall, ReplyBlock } from '../ports/model.ts';
import { createThinkParser } from './think-tags.ts';

export interface ReplyOptions {
  /** Goes into thinking blocks: reasoning is only returned to the model that produced it. */
  model: string;
  /** Look for <think> in the text. */
  thinkTags: boolean;
  /** Name that inline reasoning is stored under, if it is to be sent back. */
  inlineField?: string;
}

export interface Reply {
  text(delta: string): void;
  /** `field`: the wire name it came under, if it is to be sent back. */
  thinking(delta: string, field?: string): void;
  /** The current thinking block, begun if there is none. */
  thinkingBlock(field?: string): ThinkingBlock;
  /** Encrypted reasoning, complete as it comes. */
  redacted(data: string): void;
  /** The current block is over. */
  close(): void;
  /** Events since the last time. */
  take(): ModelEvent[];
  /** The end of the text: what was held back comes out. */
  flush(): void;
  /** The blocks, calls last. */
  finish(calls?: RawToolCall[]): ReplyBlock[];
}

export function createReply(options: ReplyOptions): Reply {
  let blocks: ReplyBlock[] = [];
  let open: ReplyBlock | undefined;
  let events: ModelEvent[] = [];
  const parser = options.thinkTags ? createThinkParser() : undefined;

  const begin = <Block extends ReplyBlock>(block: Block): Block => {
    blocks.push(block);
    open = block;
    return block;
  };
  const thinkingBlock = (field?: string): ThinkingBlock =>
    open?.type === 'thinking' && open.field === field
      ? open
      : begin({ type: 'thinking', thinking: '', model: options.model, ...(field && { field }) });
  const text = (delta: string) => {
    if (!delta) return;
    const block = open?.type === 'text' ? open : begin({ type: 'text' as const, text: '' });
    block.text += delta;
    events.push({ type: 'text', delta });
  };
  const thinking = (delta: string, field?: string) => {
    if (!delta) return;
    thinkingBlock(field).thinking += delta;
    events.push({ type: 'thinking', delta });
  };
  /** All text so far turns out to be reasoning. */
  const reinterpret = () => {
    const said = blocks.map((block) => (block.type === 'text' ? block.text : '')).join('');
    const thought = blocks.map((block) => (block.type === 'thinking' ? block.thinking : '')).join('');
    blocks = blocks.filter((block) => block.type !== 'text');
    open = undefined;
    const shown = thought + said;
    if (said) thinkingBlock(options.inlineField).thinking += said;
    open = undefined;
    events.push({ type: 'reset' });
    if (shown) events.push({ type: 'thinking', delta: shown });
  };
  const parsed = (parts: ReturnType<NonNullable<typeof parser>['push']>) => {
    for (const part of parts) {
      if (part.type === 'void') reinterpret();
      else if (part.type === 'thinking') thinking(part.text, options.inlineField);
      else text(part.text);
    }
  };

  const flush = () => {
    if (parser) parsed(parser.end());
  };

  return {
    text: parser ? (delta) => parsed(parser.push(delta)) : text,
    thinking,
    thinkingBlock,
    redacted(data) {
      begin({ type: 'thinking', thinking: '', redacted: data, model: options.model });
      open = undefined;
    },
    close() {
      open = undefined;
    },
    take() {
      const taken = events;
      events = [];
      return taken;
    },
    flush,
    finish(calls = []) {
      flush();
      return [...blocks, ...calls];
    },
  };
}

/** Tokens from whatever a vendor calls them; undefined if it says nothing. `input` includes the cached ones. */
export function usageOf(value: unknown): Usage | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const usage = value as Record<string, unknown>;
  const details = (usage.prompt_tokens_details ?? usage.input_tokens_details ?? {}) as Record<
    string,
    unknown
  >;
  const cached = first(
    details.cached_tokens,
    usage.cache_read_input_tokens,
    usage.prompt_cache_hit_tokens,
    usage.cached_tokens,
  );
  const output = first(usage.completion_tokens, usage.output_tokens);
  // Anthropic counts cached tokens beside the input, everybody else within it.
  const input =
    usage.prompt_tokens === undefined && usage.input_tokens_details === undefined
      ? first(usage.input_tokens) +
        first(usage.cache_read_input_tokens) +
        first(usage.cache_creation_input_tokens)
      : first(usage.prompt_tokens, usage.input_tokens);
  return input === 0 && output === 0 ? undefined : { input, output, cached };
}

const first = (...values: unknown[]): number => {
  for (const value of values) if (typeof value === 'number' && value > 0) return value;
  return 0;
};
