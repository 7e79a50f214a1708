// The agent: one run of the loop over one conversation. Pure: messages in, events out, everything outside through ports;
// no timer, no IO. docs/agent-loop.md maps each mechanism to its file, setting and test.
import { Cancelled, RunInterrupted } from './abort.ts';
import { begin, finishBatch } from './beginning.ts';
import { fitContext, showContext } from './context/fit.ts';
import { cancelled, type End } from './ending.ts';
import { attachmentsIn } from './files.ts';
import { takeHeld } from './inbox.ts';
import { loop } from './loop.ts';
import { runPostProcess } from './post-process.ts';
import { readJournal } from './resume.ts';
import { createRun, emit, type Context, type Run } from './run.ts';
import { truncateContent } from './truncate.ts';
import type { AgentEntry, AgentOptions, AgentResult } from './types.ts';

export { RunInterrupted } from './abort.ts';
export { createCalibration, type Calibration } from './context/calibration.ts';
export type { AgentHooks } from './hooks.ts';
export type { AgentPrompt } from './prompt.ts';
export type { AgentOptions, AgentResult } from './types.ts';

/**
 * Runs the agent until it has answered, failed, or was cancelled: all of these are results. Rejects only with
 * RunInterrupted (the signal aborted with another reason than 'cancel') or with what `journal`, `steering` or `followUp`
 * rejected with; the run must then not be committed.
 */
export async function runAgent(options: AgentOptions): Promise<AgentResult> {
  const run = createRun(options);
  const { promise, resolve, reject } = Promise.withResolvers<AgentResult>();
  // An interrupted run is over for the lane at once, whatever it waits for; what is left of it ends at its next step.
  run.abort.add({
    stopped: (stop) => {
      if (stop instanceof RunInterrupted) reject(stop);
    },
  });
  conduct(run).then(resolve, (error: unknown) => {
    if (!(error instanceof RunInterrupted)) run.options.log.debug({ error }, 'the run ended with an error');
    reject(error);
  });
  try {
    return await promise;
  } finally {
    run.abort.close();
    run.deadlines.close();
  }
}

async function conduct(run: Run): Promise<AgentResult> {
  const { options } = run;
  const resumed = readJournal(options.resume ?? [], options.prompts, options.clock.now());
  begin(run, resumed);
  let end: End;
  try {
    await fitContext(run);
    showContext(run);
    end = (resumed.open && (await finishBatch(run, resumed.open))) ?? (await loop(run, resumed.answered));
    if (end.stop !== 'aborted' && end.stop !== 'error') await runPostProcess(run, resumed.postStarted);
  } catch (error) {
    if (!(error instanceof Cancelled)) throw error;
    end = cancelled(run);
  }
  takeHeld(run);
  return outcome(run, end);
}

function outcome(run: Run, { status, stop, error }: End): AgentResult {
  const { context, options, transcript, usage } = run;
  const reply = run.finals.filter((text) => text !== '').join('\n\n');
  const files = attachmentsIn(transcript.entries);
  const attachments = files.length > 0 ? { attachments: files } : {};
  emit(run, { type: 'agent_end', status, reply, ...attachments, stop, usage, turns: run.turn });
  return {
    entries: transcript.entries.map((entry) =>
      entry.message.role === 'user' ? keptEntry(entry, options.settings.tool_result_kept_chars) : entry,
    ),
    reply,
    ...attachments,
    status,
    stop,
    usage,
    turns: run.turn,
    ...(error === undefined ? {} : { error }),
    ...(context.kept ? { context: contextOf(options.contextFrom ?? 0, context.kept) } : {}),
  };
}

function contextOf(base: number, { from, summary }: NonNullable<Context['kept']>): AgentResult['context'] {
  return { from: base + from, ...(summary === undefined ? {} : { summary }) };
}

/** Long results are cut once, here, for good: the prefix of later runs stays byte-stable. */
function keptEntry(entry: AgentEntry, maxChars: number): AgentEntry {
  const { role, content } = entry.message;
  const kept = content.map((block) => {
    if (block.type !== 'tool_result') return block;
    const cut = truncateContent(block.content, maxChars);
    return cut === block.content ? block : { ...block, content: cut };
  });
  return kept.some((block, n) => block !== content[n])
    ? { ...entry, message: { role, content: kept } }
    : entry;
}
