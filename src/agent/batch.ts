// The calls of one assistant message: in order, or together if every tool allows it. On every path each call has one
// result, in call order, in the next user message: what is missing is completed in a `finally`.
import type { ToolResultBlock } from '../domain/messages.ts';
import { fail } from '../ports/tool.ts';
import type { JournalEntry } from '../ports/store.ts';
import type { Call } from './assistant.ts';
import { fetchSteering } from './inbox.ts';
import { write, type Run } from './run.ts';
import { execute, finalize, prepare, resultBlock, type Finished, type Prepared } from './tool-call.ts';
import { CANCELLED_BEFORE, HINT, SKIPPED_AT_END, SKIPPED_BY_STEERING } from './wording.ts';

export interface BatchOutcome {
  /** In call order. */
  finished: readonly Finished[];
  /** All results asked for the end of the run. */
  terminate: boolean;
  /** A tool that failed too often: the run is to end. */
  failing: string | undefined;
}

/** What an interrupted run had of this batch: results by call id. */
export type Done = ReadonlyMap<string, { block: ToolResultBlock; terminate: boolean }>;

/**
 * Runs a batch and appends its results. Journaled before a tool runs: what was unwritten, and that it starts; as soon as
 * it has ended: its result. Rejects with Cancelled, RunInterrupted or the journal's rejection, the results appended.
 */
export async function runBatch(run: Run, calls: readonly Call[], done?: Done): Promise<BatchOutcome> {
  const slots: (Finished | undefined)[] = calls.map(({ block }) => {
    const before = done?.get(block.id);
    return before && { ...before, hint: false, end: false };
  });
  let skip = SKIPPED_AT_END;
  try {
    if (isParallel(run, calls)) await inParallel(run, calls, slots);
    else if (await inOrder(run, calls, slots)) skip = SKIPPED_BY_STEERING;
  } finally {
    const missing = run.abort.signal.aborted ? CANCELLED_BEFORE : skip;
    complete(run, calls, slots, missing);
  }
  await write(run);
  const finished = slots as Finished[];
  const failing = finished.findIndex(({ end }) => end);
  return {
    finished,
    terminate: finished.every(({ terminate }) => terminate),
    failing: calls[failing]?.block.name,
  };
}

function isParallel(run: Run, calls: readonly Call[]): boolean {
  if (calls.length === 1 || run.options.settings.tool_execution === 'sequential') return false;
  return calls.every(({ tool }) => tool === undefined || tool.execution === 'parallel');
}

function startEntry({ block, tool }: Call): JournalEntry {
  const entry = { v: 1, kind: 'tool_start', call_id: block.id } as const;
  return tool?.idempotent ? { ...entry, idempotent: true } : entry;
}

function resultEntry({ block, terminate }: Finished): JournalEntry {
  const entry = { v: 1, kind: 'tool_result', call_id: block.tool_use_id, block } as const;
  return terminate ? { ...entry, terminate } : entry;
}

/** True if the rest was skipped for a new message. */
async function inOrder(run: Run, calls: readonly Call[], slots: (Finished | undefined)[]): Promise<boolean> {
  let started = false;
  for (const [n, call] of calls.entries()) {
    if (slots[n]) continue;
    run.abort.check();
    if (started && (await fetchSteering(run))) return true;
    started = true;
    // A hook may think for long: what is known until here must not wait for it.
    if (run.options.hooks?.beforeToolCall) await write(run);
    const preparing = prepare(run, call);
    const prepared = preparing instanceof Promise ? await preparing : preparing;
    if (!prepared.refused) await write(run, startEntry(call));
    const result = finalize(run, prepared, prepared.refused ?? (await execute(run, prepared)));
    slots[n] = result;
    run.unwritten.push(resultEntry(result));
    if (result.end) break;
  }
  return false;
}

/** Prepared in order, executed together; `end` events as they finish. */
async function inParallel(run: Run, calls: readonly Call[], slots: (Finished | undefined)[]): Promise<void> {
  run.abort.check();
  const prepared: [number, Prepared][] = [];
  for (const [n, call] of calls.entries()) {
    if (slots[n]) continue;
    const item = await prepare(run, call);
    prepared.push([n, item]);
    if (item.refused) {
      slots[n] = finalize(run, item, item.refused);
      run.unwritten.push(resultEntry(slots[n]));
    } else {
      run.unwritten.push(startEntry(call));
    }
  }
  await write(run);
  await Promise.all(
    prepared.map(async ([n, item]) => {
      if (item.refused) return;
      const result = finalize(run, item, await execute(run, item));
      slots[n] = result;
      await write(run, resultEntry(result));
    }),
  );
}

function complete(run: Run, calls: readonly Call[], slots: (Finished | undefined)[], missing: string): void {
  let hint = false;
  const content = calls.map(({ block }, n) => {
    const slot = (slots[n] ??= skipped(run, block.id, missing));
    hint ||= slot.hint;
    return slot.block;
  });
  run.transcript.append(
    { message: { role: 'user', content }, at: run.options.clock.now() },
    hint ? [{ type: 'text', text: HINT }] : undefined,
  );
}

/** Journaled with the next write: a resumed run must not make the call. */
function skipped(run: Run, id: string, reason: string): Finished {
  const block = resultBlock(id, fail(reason), Infinity);
  const result = { block, terminate: false, hint: false, end: false };
  run.unwritten.push(resultEntry(result));
  return result;
}
