// The two views of the inbox: steering (taken at turn boundaries, and looked at between the calls of a batch) and
// follow-up (taken when the run would end). Each shows the model one message at a time, or all that wait.
import { emit, takeIn, write, type Run } from './run.ts';
import type { AgentPrompt } from './types.ts';

/** True if a message waits to steer the run; it is fetched, and shown at the next boundary. */
export async function hasSteering(run: Run): Promise<boolean> {
  if (run.heldSteering.length === 0) {
    const { hooks, steering } = run.options;
    run.heldSteering = await fetch(run, hooks?.getSteering?.(steering) ?? steering());
  }
  return run.heldSteering.length > 0;
}

/** Takes steering messages into the run; true if there were any. */
export async function takeSteering(run: Run): Promise<boolean> {
  if (!(await hasSteering(run))) return false;
  takePrompts(run, run.heldSteering, run.options.settings.steering);
  return true;
}

/** Likewise for follow-up. */
export async function takeFollowUp(run: Run): Promise<boolean> {
  if (run.heldFollowUp.length === 0) {
    const { hooks, followUp } = run.options;
    run.heldFollowUp = await fetch(run, hooks?.getFollowUp?.(followUp) ?? followUp());
  }
  if (run.heldFollowUp.length === 0) return false;
  takePrompts(run, run.heldFollowUp, run.options.settings.follow_up);
  // The answer before it must survive a crash: it will not be given again.
  await write(run, []);
  return true;
}

/** Taken messages are the run's for good: whatever ends it, they are in its entries. */
export function takeHeld(run: Run): void {
  takePrompts(run, run.heldSteering, 'all');
  takePrompts(run, run.heldFollowUp, 'all');
}

// Not cut short by a cancel: messages that the store handed over would be lost.
const fetch = (run: Run, prompts: Promise<AgentPrompt[]>) => run.abort.race(prompts, false);

function takePrompts(run: Run, held: AgentPrompt[], mode: 'one-at-a-time' | 'all'): void {
  const taken = held.splice(0, mode === 'all' ? held.length : 1);
  if (taken.length === 0) return;
  const ids = taken.flatMap(({ id }) => id ?? []);
  run.unwritten.push({ v: 1, kind: 'steered', messages: ids });
  emit(run, { type: 'steered', messages: ids });
  for (const prompt of taken) takeIn(run, prompt);
}
