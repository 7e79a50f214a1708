// The loop: turns until the model answers without asking for tools; then follow-up messages, if any, in the same run.
import { readReply } from './assistant.ts';
import { apologise, cancelled, failed, type End } from './ending.ts';
import { fetchSteering, takeFollowUp, takeHeld, takeSteering } from './inbox.ts';
import { emit, write, type Run } from './run.ts';
import { askModel, endTurn, isEmpty, startTurn, takeTurn } from './turn.ts';
import { LIMIT } from './wording.ts';

/**
 * `answered`: the model's last word is an answer already (a resumed run). Rejects with Cancelled, RunInterrupted, or what
 * the journal or the inbox rejected with.
 */
export async function loop(run: Run, answered: boolean): Promise<End> {
  const { settings, mayBeSilent } = run.options;
  if (answered && !(await goesOn(run))) return { status: 'done', stop: 'stop' };
  let nudge = false;
  // True when messages were just taken: the inbox need not be asked again.
  let fresh = answered;
  for (;;) {
    if (run.turn >= settings.max_steps) return sumUp(run);
    run.abort.check();
    if (!fresh && (await fetchSteering(run))) {
      takeSteering(run);
      nudge = false;
    }
    fresh = false;
    const outcome = await takeTurn(run, nudge);
    switch (outcome.kind) {
      case 'end':
        return outcome.end;
      case 'tools':
        nudge = false;
        break;
      case 'empty':
        if (mayBeSilent) return { status: 'done', stop: 'stop' };
        if (nudge || run.turn === 1) return apologise(run, { key: 'empty_reply', stop: 'stop' });
        nudge = true;
        break;
      case 'text':
        nudge = false;
        fresh = await goesOn(run);
        if (!fresh) return { status: 'done', stop: outcome.stop };
    }
  }
}

/**
 * After an answer: messages that came meanwhile make the run go on, while it may take another turn and has not taken a
 * batch: what waits beyond that gets the next run, when the other conversations have had their turn.
 */
async function goesOn(run: Run): Promise<boolean> {
  const { max_steps, max_batch } = run.options.settings;
  if (run.abort.cancelled() || run.turn >= max_steps || messagesOf(run) >= max_batch)
    return run.heldSteering.length + run.heldFollowUp.length > 0;
  if (await fetchSteering(run)) takeSteering(run);
  else if (!(await takeFollowUp(run))) return false;
  // The answer before them must survive a crash: it will not be given again.
  await write(run);
  return true;
}

const messagesOf = ({ transcript }: Run): number =>
  transcript.entries.reduce((count, { id }) => (id === undefined ? count : count + 1), 0);

/** The step limit: one more call, without tools, for a summary. */
async function sumUp(run: Run): Promise<End> {
  run.abort.check();
  takeHeld(run);
  startTurn(run);
  const restore = run.transcript.inject(LIMIT);
  const reply = await askModel(run, { allowTools: false, emptyRetries: 0 });
  restore();
  if (reply.type === 'failed') {
    return reply.stop === 'aborted' && run.abort.signal.aborted ? cancelled(run, reply) : failed(run, reply);
  }
  const { content, stop, usage, model } = reply;
  // Calls that the model makes all the same are dropped.
  const { message, text } = readReply(run, content, stop, false);
  if (isEmpty(content) || text.trim() === '') {
    return apologise(run, { key: 'step_limit', stop: 'tool_use', partial: [], model });
  }
  run.transcript.append({ message, at: run.options.clock.now(), model, stop });
  emit(run, { type: 'message_end', message, usage });
  endTurn(run, stop, { usage, model });
  run.finals.push(text.trim());
  return { status: 'done', stop };
}
