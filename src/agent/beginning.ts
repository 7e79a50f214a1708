// How a run begins: with its prompts; and, if it was interrupted before, with what its journal has, and the batch of calls
// in which it stopped.
import { textOf, type Message } from '../domain/messages.ts';
import { fail } from '../ports/tool.ts';
import { checkCall } from './assistant.ts';
import type { End } from './ending.ts';
import type { OpenBatch, Resumed } from './resume.ts';
import { announce, emit, type Run } from './run.ts';
import { resultBlock } from './tool-call.ts';
import { runTools } from './turn.ts';
import { CRASHED_DURING } from './wording.ts';

/** Takes in the prompts and what the journal has; announces only what is new. */
export function begin(run: Run, resumed: Resumed): void {
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
  recallCalls(run, [...resumed.chain.map(({ message }) => message), ...openMessages(resumed.open)]);
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

/** The part of an open batch that is done. */
function openMessages(open: OpenBatch | undefined): Message[] {
  if (!open) return [];
  const results = [...open.done.values()].map(({ block }) => block);
  return [
    { role: 'assistant', content: open.calls.filter(({ id }) => open.done.has(id)) },
    { role: 'user', content: results },
  ];
}

/** The breakers know the calls of the interrupted attempt. */
function recallCalls(run: Run, messages: readonly Message[]): void {
  const blocks = messages.flatMap(({ content }) => content);
  const failed = new Map<string, boolean>();
  for (const block of blocks) {
    if (block.type === 'tool_result') failed.set(block.tool_use_id, block.is_error === true);
  }
  for (const block of blocks) {
    if (block.type !== 'tool_use') continue;
    const { record } = run.breakers.begin(block.name, JSON.stringify(block.input));
    run.breakers.end(record, failed.get(block.id) === false);
  }
}

/** The batch in which the run was interrupted. A call that had started is made again only if that is harmless. */
export async function finishBatch(
  run: Run,
  { entry, calls, done, started }: OpenBatch,
): Promise<End | undefined> {
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
