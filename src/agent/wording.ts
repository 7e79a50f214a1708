// What the loop itself says to the model: results of calls that were not made, and prompts that are injected for one call
// and leave no trace. English, whatever the user speaks: it is addressed to the model.

export const SKIPPED_BY_STEERING = 'Skipped: the user sent a new message.';
export const SKIPPED_AT_END = 'Skipped: the run ended before this call.';
export const CANCELLED_BEFORE = 'Not done: the user cancelled the run.';
export const CANCELLED_DURING =
  'The user cancelled the run during this call: it may or may not have taken effect.';
export const CRASHED_DURING =
  'The server was interrupted during this call: it may or may not have taken effect. Check before you repeat it.';

/** After tools ran and the model said nothing. */
export const NUDGE = "You gave no answer. Tell the user the result of what you did, in the user's language.";

/** At the step limit. */
export const LIMIT =
  "You have reached the limit of steps for this task. Call no more tools. In the user's language, sum up what was done, what was found and what is left.";

export const HINT = 'You have this result already, several times. Answer the user now.';

export const unknownTool = (name: string, known: Iterable<string>) =>
  `There is no tool "${name}". Tools: ${[...known].join(', ') || 'none'}.`;

export const timedOut = (ms: number) =>
  `The tool gave no result within ${ms / 1_000} s and was stopped: it may or may not have taken effect.`;
