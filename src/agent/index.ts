// The agent: one run of the loop over one conversation. Pure: messages in, events out, everything outside through ports;
// no timer, no IO. docs/agent-loop.md maps each mechanism to its file, setting and test.
import { textOf } from '../domain/messages.ts';
import { fail } from '../ports/tool.ts';
import { Cancelled, RunInterrupted } from './abort.ts';
import { checkCall } from './assistant.ts';
import { fitContext, showContext } from './context/fit.ts';
import { cancelled, type End } from './ending.ts';
import { takeHeld } from './inbox.ts';
import { loop } from './loop.ts';
import { runPostProcess } from './post-process.ts';
import { readJournal, type OpenBatch, type Resumed } from './resume.ts';
import { announce, createRun, emit, type Context, type Run } from './run.ts';
import { resultBlock } from './tool-call.ts';
import { truncateContent } from './truncate.ts';
import { runTools } from './turn.ts';
import type { AgentEntry, AgentOptions, AgentResult } from './types.ts';
import { CRASHED_DURING } from './wording.ts';

export { createCalibration, type Calibration } from './context/calibration.ts';
export type { AgentHooks } from './hooks.ts';
export type { AgentOptions, AgentPrompt, AgentResult } from './types.ts';

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

/** Takes in the prompts and what the journal has; announces only what is new. */
function begin(run: Run, resumed: Resumed): void {
  const { clock, prompts } = run.options;
  emit(run, {
    type: 'agent_start',
    messages: prompts.flatMap(({ id }) => id ?? []),
    ...(resumed.interrupted ? { resumed: true } : {}),
  });
  for (const { message, id, at, sender } of resumed.initial) {
    run.transcript.append({ message, at: at ?? clock.now(), ...(id === undefined ? {} : { id }) });
    if (sender) run.sender = sender;
    if (!resumed.interrupted) announce(run, message, id);
  }
  for (const entry of resumed.chain) run.transcript.append(entry);
  recallCalls(run, resumed.chain);
  run.turn = resumed.turns;
  Object.assign(run.usage, resumed.usage);
  run.finals.push(...resumed.finals);
  run.heldSteering.push(...resumed.waiting);
  if (!resumed.interrupted) {
    // The first step of the journal: which messages the run started with.
    run.unwritten.push({ v: 1, kind: 'steered', messages: resumed.initial.flatMap(({ id }) => id ?? []) });
  } else {
    // Text of the interrupted attempt that was streamed but not journaled comes again.
    emit(run, { type: 'message_reset' });
  }
}

/** The breakers know the calls of the interrupted attempt. */
function recallCalls(run: Run, chain: readonly AgentEntry[]): void {
  const failed = new Map<string, boolean>();
  for (const { message } of chain) {
    for (const block of message.content) {
      if (block.type === 'tool_result') failed.set(block.tool_use_id, block.is_error === true);
    }
  }
  for (const { message } of chain) {
    for (const block of message.content) {
      if (block.type !== 'tool_use') continue;
      const { record } = run.breakers.begin(block.name, JSON.stringify(block.input));
      run.breakers.end(record, failed.get(block.id) === false);
    }
  }
}

/** The batch in which the run was interrupted. A call that had started is made again only if that is harmless. */
async function finishBatch(run: Run, { entry, calls, done, started }: OpenBatch): Promise<End | undefined> {
  run.transcript.append(entry);
  run.aside = textOf(entry.message.content).trim();
  const prepared = calls.map((block) => {
    run.transcript.callId(block.id);
    if (started.has(block.id) && !done.has(block.id) && run.tools.get(block.name)?.idempotent !== true) {
      const result = resultBlock(block.id, fail(CRASHED_DURING), Infinity);
      done.set(block.id, { block: result, terminate: false });
      run.unwritten.push({ v: 1, kind: 'tool_result', call_id: block.id, block: result });
    }
    return checkCall(run, block);
  });
  run.turnOpen = true;
  const { stop = 'tool_use', model } = entry;
  const turn = await runTools(run, prepared, { stop, model }, done);
  return turn.kind === 'end' ? turn.end : undefined;
}

function outcome(run: Run, { status, stop }: End): AgentResult {
  const { context, options, transcript, usage } = run;
  const reply = run.finals.filter((text) => text !== '').join('\n\n');
  emit(run, { type: 'agent_end', status, reply, stop, usage, turns: run.turn });
  return {
    entries: transcript.entries.map((entry) =>
      entry.message.role === 'user' ? keptEntry(entry, options.settings.tool_result_kept_chars) : entry,
    ),
    reply,
    status,
    stop,
    usage,
    turns: run.turn,
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
