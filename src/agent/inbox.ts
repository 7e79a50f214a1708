// The two views of the inbox: steering (taken at turn boundaries, and looked at between the calls of a batch) and
// follow-up (taken when the run would end). Each shows the model one message at a time, or all that wait.
import { emit, takeIn, type Run } from './run.ts';
import type { AgentPrompt } from './prompt.ts';

/** Fetches steering messages, unless some are held already; true if any wait to be shown. */
export async function fetchSteering(run: Run): Promise<boolean> {
  if (run.heldSteering.length === 0) {
    const { hooks, steering } = run.options;
    const prompts = await (hooks?.getSteering?.(steering) ?? steering());
    // What came before them is shown before them, follow-up or not.
    if (prompts.length > 0) run.heldSteering.push(...run.heldFollowUp.splice(0), ...prompts);
  }
  return run.heldSteering.length > 0;
}

/** Takes fetched messages into the run. */
export function takeSteering(run: Run): void {
  takePrompts(run, run.heldSteering, run.options.settings.steering);
}

/** Fetches follow-up messages and takes them into the run; true if there were any. */
export async function takeFollowUp(run: Run): Promise<boolean> {
  if (run.heldFollowUp.length === 0) {
    const { hooks, followUp } = run.options;
    run.heldFollowUp.push(...(await (hooks?.getFollowUp?.(followUp) ?? followUp())));
  }
  if (run.heldFollowUp.length === 0) return false;
  takePrompts(run, run.heldFollowUp, run.options.settings.follow_up);
  return true;
}

/** Taken messages are the run's for good: whatever ends it, they are in its entries. */
export function takeHeld(run: Run): void {
  takePrompts(run, run.heldSteering, 'all');
  takePrompts(run, run.heldFollowUp, 'all');
}

function takePrompts(run: Run, held: AgentPrompt[], mode: 'one-at-a-time' | 'all'): void {
  const taken = held.splice(0, mode === 'all' ? held.length : 1);
  if (taken.length === 0) return;
  const ids = taken.flatMap(({ id }) => id ?? []);
  run.unwritten.push({ v: 1, kind: 'steered', messages: ids });
  emit(run, { type: 'steered', messages: ids });
  for (const prompt of taken) takeIn(run, prompt);
}
