// Fitting the context into the model's window: once, before the loop. Never within it, where cutting a live chain of calls
// makes models repeat them (except when the model itself says that it is too long: overflow.ts).
import type { Message } from '../../domain/messages.ts';
import { emit, type Run } from '../run.ts';
import { budgetOf, leastTokens } from './budget.ts';
import { summarise } from './compact.ts';
import { estimateMessage, estimateMessages, estimateText } from './estimate.ts';

/** Rejects with Cancelled or RunInterrupted. */
export async function fitContext(run: Run): Promise<void> {
  const { context, options, transcript } = run;
  const { history, summary } = context;
  const starts = turnStarts(history);
  // A run before found the context too long up to here.
  const forced = history.findLastIndex((message) => message.compact) + 1;
  const tooMany = starts.length > options.settings.max_context_turns;
  const chain = transcript.entries.map(({ message }) => message);
  if (forced === 0 && !tooMany) {
    if (mostTokens([...history, ...chain]) + (summary?.length ?? 0) <= leastTokens(run)) return;
  }
  const budget = budgetOf(run);
  if (forced === 0 && !tooMany) {
    const tokens = estimateMessages(history) + estimateMessages(chain) + estimateText(summary ?? '');
    if (tokens <= budget.messages) return;
  }
  const room = Math.max(0, budget.messages - budget.summary - estimateMessages(chain));
  const { compact_to } = options.settings.context;
  const cut = chooseCut(run, {
    starts,
    atLeast: forced,
    room: room * compact_to,
    largest: room,
    turns: Math.max(1, Math.floor(options.settings.max_context_turns * compact_to)),
  });
  if (cut > 0) await moveContext(run, cut, budget.summary);
}

/** The model sees history from `to` on, and a summary of what was before. */
export async function moveContext(run: Run, to: number, summaryTokens: number): Promise<void> {
  const { context, options } = run;
  const dropped = to - context.from;
  const summarised = await summarise(
    run,
    context.history.slice(context.from, to),
    context.summary,
    summaryTokens,
  );
  context.from = to;
  if ('summary' in summarised) context.summary = summarised.summary;
  // After a passing failure the next run may try again: the older turns are left out of this run only.
  if ('summary' in summarised || summarised.failed === 'lasting')
    context.kept = { from: to, summary: context.summary };
  emit(run, { type: 'compacted', dropped, summary: 'summary' in summarised });
  options.log.info({ dropped, summary: 'summary' in summarised }, 'the context was compacted');
}

/**
 * The summary comes as the first user message and not in the system prompt: tools and system prompt then stay the same
 * bytes for every conversation, and a compaction costs no more of the cached prefix than it must.
 */
export function showContext(run: Run): void {
  const { history, from, summary } = run.context;
  const text = `Summary of the conversation so far (older messages are not shown):\n${summary}`;
  const head: Message[] = summary === undefined ? [] : [{ role: 'user', content: [{ type: 'text', text }] }];
  run.transcript.show([
    ...head,
    ...history.slice(from),
    ...run.transcript.entries.map(({ message }) => message),
  ]);
}

/** Indices at which a turn begins: what people said, after what the assistant did. The only places to cut at. */
export function turnStarts(history: readonly Message[]): number[] {
  const starts: number[] = [];
  let said = false;
  for (const [n, message] of history.entries()) {
    const prompt = message.role === 'user' && !message.content.some((block) => block.type === 'tool_result');
    if (prompt && !said) starts.push(n);
    said = prompt;
  }
  return starts;
}

export interface CutRules {
  starts: readonly number[];
  /** Everything before this index goes. */
  atLeast: number;
  /** Estimated tokens to keep; the newest turn may take up to `largest`. */
  room: number;
  largest: number;
  /** Turns to keep, at most. */
  turns: number;
}

/** Index of the first message to keep: a turn's start, or the history's length. */
export function chooseCut({ context: { history, from } }: Run, rules: CutRules): number {
  let cut = history.length;
  let tokens = 0;
  let kept = 0;
  for (const start of rules.starts.toReversed()) {
    if (start < Math.max(rules.atLeast, from) || kept === rules.turns) break;
    for (let n = cut - 1; n >= start; n--) tokens += estimateMessage(history[n]!);
    if (tokens > (kept === 0 ? rules.largest : rules.room)) break;
    cut = start;
    kept++;
  }
  return cut;
}

/** No text has more tokens than this: cheaper than an estimate. */
function mostTokens(messages: readonly Message[]): number {
  let most = 0;
  for (const { content } of messages) {
    for (const block of content) {
      // Anything but plain text: let the estimate decide.
      if (block.type === 'text') most += block.text.length;
      else if (block.type === 'tool_result' && typeof block.content === 'string')
        most += block.content.length + 50;
      else if (block.type === 'tool_use') most += 2_000;
      else return Infinity;
    }
    most += 10;
  }
  return most;
}
