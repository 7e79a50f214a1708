// The model said that the context is too long: compact it harder than the estimate would, and let the call be made again.
// What the current run did is kept: older turns are summed up first, then results within the run are shortened.
import type { ModelReply } from '../model-call.ts';
import type { Run } from '../run.ts';
import { truncateContent } from '../truncate.ts';
import { budgetOf, windowOf } from './budget.ts';
import { estimateMessages, estimatePrompt } from './estimate.ts';
import { chooseCut, moveContext, showContext, turnStarts } from './fit.ts';

/** However long the answer and the system prompt may be: messages get this part of the window. */
const MESSAGES_SHARE = 0.25;
/** Results of the run are cut to the first of these that makes it fit. */
const RESULT_CHARS = [8_000, 2_000, 500];

/** True if something was made shorter. Rejects with Cancelled or RunInterrupted. */
export async function healOverflow(run: Run, reply: ModelReply): Promise<boolean> {
  const { context, model, options, transcript } = run;
  const prompt = estimatePrompt(options.system, run.specs);
  const estimated = prompt + estimateMessages(transcript.view);
  const said = reply.type === 'failed' ? numbersIn(reply.error?.message ?? '') : {};
  if (said.limit !== undefined && said.limit < windowOf(run)) {
    // The model that answered may be a fallback, with a window of its own.
    run.calibration.learnWindow(reply.model, said.limit);
  }
  const window = Math.min(windowOf(run), run.calibration.window(reply.model));
  // It was too long: so it has at least as many tokens as the window, whatever the estimate says.
  const factor = Math.max(run.calibration.factor(model.name), (said.requested ?? window) / estimated);
  const free = window - model.maxOutputTokens - prompt * factor;
  const target = Math.max(options.settings.context.overflow_to * free, MESSAGES_SHARE * window) / factor;

  const chainTokens = () => estimateMessages(transcript.entries.map(({ message }) => message));
  const summaryTokens = Math.min(budgetOf(run).summary, target / 4);
  const room = Math.max(0, target - summaryTokens - chainTokens());
  const starts = turnStarts(context.history);
  const cut = chooseCut(run, { starts, atLeast: 0, room, largest: room, turns: Infinity });
  let shorter = cut > context.from;
  if (shorter) await moveContext(run, cut, summaryTokens);
  for (const maxChars of RESULT_CHARS) {
    if (chainTokens() + summaryTokens <= target) break;
    if (shortenResults(run, maxChars)) shorter = true;
  }
  if (shorter) showContext(run);
  return shorter;
}

function shortenResults({ transcript }: Run, maxChars: number): boolean {
  let shorter = false;
  for (const [n, { message }] of transcript.entries.entries()) {
    const content = message.content.map((block) => {
      if (block.type !== 'tool_result') return block;
      const cut = truncateContent(block.content, maxChars);
      return cut === block.content ? block : { ...block, content: cut };
    });
    if (content.every((block, index) => block === message.content[index])) continue;
    transcript.replace(n, { role: message.role, content });
    shorter = true;
  }
  return shorter;
}

/** Counts of four digits and more; not parts of dates, times, versions, names or ids. */
const TOKEN_COUNTS = /(?<![\w.-])\d[\d,_]{3,}(?![\w:-]|\.\d)/gu;

/** Vendors name the window, and most of them also what was sent: two different numbers, or one. */
export function numbersIn(message: string): { limit?: number; requested?: number } {
  const numbers = new Set(
    (message.match(TOKEN_COUNTS) ?? []).map((text) => Number(text.replaceAll(/[,_]/gu, ''))),
  );
  const [a, b] = [...numbers].sort((x, y) => x - y);
  if (a === undefined || numbers.size > 2) return {};
  return b === undefined ? { limit: a } : { limit: a, requested: b };
}
