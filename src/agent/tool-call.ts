// One tool call: prepare → execute → finalize. Whatever happens in it, a result comes out, paired by the call's id.
import { textOf, type ToolResultBlock } from '../domain/messages.ts';
import { fail, type Tool, type ToolResult } from '../ports/tool.ts';
import { Cancelled, RunInterrupted } from './abort.ts';
import type { Call } from './assistant.ts';
import type { BreakerRecord } from './breakers.ts';
import { attachmentsOf, withoutBytes } from './files.ts';
import type { CallInfo } from './hooks.ts';
import { ask, emit, type Run } from './run.ts';
import { RunningCall } from './running-call.ts';
import { truncateContent } from './truncate.ts';
import { CANCELLED_BEFORE } from './wording.ts';

export interface Prepared {
  call: Call;
  record: BreakerRecord;
  startedMs: number;
  /** Set if the call must not be made: its result. */
  refused: ToolResult | undefined;
}

export interface Finished {
  block: ToolResultBlock;
  terminate: boolean;
  /** A breaker: tell the model to answer with what it has. */
  hint: boolean;
  /** A breaker: this tool has failed too often, the run is to end. */
  end: boolean;
}

/** Unusable arguments, then breakers, then the hook: the first that objects decides. */
export function prepare(run: Run, call: Call): Prepared | Promise<Prepared> {
  emit(run, { type: 'tool_execution_start', call: call.block });
  const startedMs = run.options.clock.now();
  const { record, refusal } = run.breakers.begin(call.block.name, call.key);
  const objection = call.problem ?? refusal;
  const prepared = {
    call,
    record,
    startedMs,
    refused: objection === undefined ? undefined : fail(objection),
  };
  if (objection !== undefined || !run.options.hooks?.beforeToolCall) return prepared;
  return askBefore(run, prepared);
}

async function askBefore(run: Run, prepared: Prepared): Promise<Prepared> {
  const objection = await blocked(run, infoOf(run, prepared.call));
  return objection === undefined ? prepared : { ...prepared, refused: fail(objection) };
}

/** Why the hook does not allow a call; undefined: it does. */
export async function blocked(run: Run, info: CallInfo): Promise<string | undefined> {
  const { hooks, signal, log } = run.options;
  try {
    const answer = hooks?.beforeToolCall?.(info, signal);
    const verdict = answer instanceof Promise ? await run.abort.race(answer) : answer;
    return verdict?.block ? (verdict.reason ?? 'This call is not allowed.') : undefined;
  } catch (error) {
    if (error instanceof Cancelled) return CANCELLED_BEFORE;
    if (error instanceof RunInterrupted) throw error;
    log.error({ error, tool: info.tool.name }, 'the hook beforeToolCall failed: the call is blocked');
    return 'This call is not allowed: it could not be checked.';
  }
}

const infoOf = (run: Run, { block, args, tool }: Call): CallInfo => ({
  call: block,
  args,
  tool: tool!,
  turn: run.turn,
});

/** Runs the tool under its timeout and the run's signal. Rejects with RunInterrupted only. */
export function execute(run: Run, { call, startedMs }: Prepared): Promise<ToolResult> {
  const result = runTool(run, call.tool!, call.args, call.block.id, startedMs);
  return run.options.hooks?.afterToolCall ? amended(run, call, result) : result;
}

async function amended(run: Run, call: Call, executed: Promise<ToolResult>): Promise<ToolResult> {
  const { hooks, signal } = run.options;
  const result = await executed;
  if (signal.aborted) return result;
  try {
    const fields = await ask(run, 'afterToolCall', () =>
      hooks?.afterToolCall?.(infoOf(run, call), result, signal),
    );
    return fields ? { ...result, ...fields } : result;
  } catch (error) {
    if (error instanceof Cancelled) return result;
    throw error;
  }
}

/** A tool that throws, hangs, or answers nonsense gives an error result; one that ignores the signal is left behind. */
export function runTool(
  run: Run,
  tool: Tool,
  args: Record<string, unknown>,
  callId: string,
  startedMs: number,
): Promise<ToolResult> {
  if (run.abort.cancelled()) return Promise.resolve(fail(CANCELLED_BEFORE));
  const running = new RunningCall(run, tool, callId, startedMs);
  running.start(args);
  return running.result;
}

/** Records, cuts and announces the result. */
export function finalize(run: Run, { call, record, startedMs }: Prepared, result: ToolResult): Finished {
  const ok = result.status === 'success';
  const { hint, end } = run.breakers.end(record, ok);
  const block = resultBlock(call.block.id, result, run.options.settings.tool_result_max_chars);
  emit(run, {
    type: 'tool_execution_end',
    call_id: call.block.id,
    name: call.block.name,
    result: block,
    display: result.display,
    duration_ms: run.options.clock.now() - startedMs,
    result_chars: textOf(result.content).length,
  });
  return { block, terminate: result.terminate === true, hint, end };
}

/** Vendors reject empty results. */
const NO_OUTPUT = '(no output)';

export function resultBlock(id: string, result: ToolResult, maxChars: number): ToolResultBlock {
  const { content, status } = result;
  const kept = withoutBytes(content.length === 0 ? NO_OUTPUT : content);
  const attachments = attachmentsOf(result);
  return {
    type: 'tool_result',
    tool_use_id: id,
    content: truncateContent(kept, maxChars),
    ...(status === 'error' ? { is_error: true } : {}),
    ...(attachments.length > 0 ? { attachments } : {}),
  };
}
