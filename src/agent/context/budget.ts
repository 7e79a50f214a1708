// How much of the model's window the context may take, in estimated tokens.
import type { AgentSettings } from '../../../config/schema.ts';
import type { Run } from '../run.ts';
import { estimatePrompt } from './estimate.ts';

export interface Budget {
  /** For messages and summary together: what the system prompt and the tools leave. */
  messages: number;
  /** For the summary alone. */
  summary: number;
}

/** Part of the budget that a summary may take at most: in a small window it must leave room for what is new. */
const SUMMARY_SHARE = 0.15;

/** However large the system prompt: messages get this part of the budget. */
const MESSAGES_SHARE = 0.25;

/** What messages may take at least, whatever the system prompt: below it nothing needs to be estimated. */
export const leastTokens = (run: Run): number => totalOf(run) * MESSAGES_SHARE;

function totalOf(run: Run): number {
  return totalTokens(windowOf(run), run.options.settings) / run.calibration.factor(run.model.name);
}

export function budgetOf(run: Run): Budget {
  const { settings } = run.options;
  const factor = run.calibration.factor(run.model.name);
  const total = totalOf(run);
  const messages = Math.max(total - estimatePrompt(run.options.system, run.specs), total * MESSAGES_SHARE);
  return {
    messages,
    summary: Math.min(settings.context.summary_max_tokens / factor, messages * SUMMARY_SHARE),
  };
}

/** The window that the model has, or that it turned out to have. */
export const windowOf = ({ model, calibration }: Run): number =>
  Math.min(model.contextWindow, calibration.window(model.name));

/** Real tokens for all that is sent. */
export function totalTokens(window: number, { context, max_context_tokens }: AgentSettings): number {
  const { reserve_ratio, reserve_min_tokens, reserve_max_tokens } = context;
  const reserve = Math.min(
    Math.max(window * reserve_ratio, reserve_min_tokens),
    reserve_max_tokens,
    window / 2,
  );
  return Math.min(max_context_tokens, window - reserve);
}
