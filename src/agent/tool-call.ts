// One tool call: prepare → execute → finalize. Whatever happens in it, a result comes out, paired by the call's id.
import type { ToolResultBlock } from '../domain/messages.ts';
import { fail, type Tool, type ToolContext, type ToolResult } from '../ports/tool.ts';
import { Cancelled } from './abort.ts';
import type { Call } from './assistant.ts';
import type { BreakerRecord } from './breakers.ts';
import { ask, emit, isStop, type Run } from './run.ts';
import { truncateContent } from './truncate.ts';
import { CANCELLED_DURING, timedOut } from './wording.ts';

export interface Prepared {
  call: Call;
  record: BreakerRecord;
  startedMs: number;
  /** Set if the call must not be made: its result. */
  refused?: ToolResult;
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
export async function prepare(run: Run, call: Call): Promise<Prepared> {
  emit(run, { type: 'tool_execution_start', call: call.block });
  const startedMs = run.options.clock.now();
  const { record, refusal } = run.breakers.begin(call.block.name, call.key);
  const objection =
    call.problem ?? refusal ?? (run.options.hooks?.beforeToolCall && (await blocked(run, call)));
  if (objection === undefined) return { call, record, startedMs };
  return { call, record, startedMs, refused: fail(objection) };
}

async function blocked(run: Run, call: Call): Promise<string | undefined> {
  const { hooks, signal, log } = run.options;
  try {
    const answer = hooks?.beforeToolCall?.(infoOf(run, call), signal);
    const verdict = answer instanceof Promise ? await run.abort.race(answer) : answer;
    return verdict?.block ? (verdict.reason ?? 'This call is not allowed.') : undefined;
  } catch (error) {
    if (isStop(error)) throw error;
    log.error({ error, tool: call.block.name }, 'the hook beforeToolCall failed: the call is blocked');
    return 'This call is not allowed: it could not be checked.';
  }
}

const infoOf = (run: Run, { block, args, tool }: Call) => ({
  call: block,
  args,
  tool: tool!,
  turn: run.turn,
});

/** Runs the tool under its timeout and the run's signal. Rejects with RunInterrupted only. */
export async function execute(run: Run, { call }: Prepared): Promise<ToolResult> {
  const result = await runTool(run, call.tool!, call.args, call.block.id, (text) =>
    emit(run, { type: 'tool_execution_progress', call_id: call.block.id, text }),
  );
  const { hooks, signal } = run.options;
  if (!hooks?.afterToolCall || signal.aborted) return result;
  try {
    const fields = await ask(run, 'afterToolCall', () =>
      hooks.afterToolCall?.(infoOf(run, call), result, signal),
    );
    return fields ? { ...result, ...fields } : result;
  } catch (error) {
    if (error instanceof Cancelled) return result;
    throw error;
  }
}

/** A tool that throws, hangs, or answers nonsense gives an error result; one that ignores the signal is left behind. */
export async function runTool(
  run: Run,
  tool: Tool,
  args: Record<string, unknown>,
  callId: string,
  progress: (text: string) => void,
): Promise<ToolResult> {
  const { abort, deadlines, options } = run;
  const { conversation, account, group } = options.base;
  const controller = new AbortController();
  const timeoutMs = tool.timeoutMs ?? options.settings.tool_timeout_ms;
  let over = false;
  const context: ToolContext = {
    conversation,
    account,
    group,
    sender: run.sender,
    callId,
    signal: controller.signal,
    progress: (text) => {
      if (!over) progress(text);
    },
    log: options.log,
  };
  return new Promise<ToolResult>((resolve, reject) => {
    const finish = (end: () => void) => {
      over = true;
      takeBackAbort();
      takeBackDeadline();
      end();
    };
    const stop = (reason: unknown, end: () => void) => {
      finish(end);
      controller.abort(reason);
    };
    const takeBackDeadline =
      timeoutMs > 0
        ? deadlines.watch(timeoutMs, () => stop('timeout', () => resolve(fail(timedOut(timeoutMs)))))
        : () => {};
    let takeBackAbort = () => {};
    takeBackAbort = abort.onAbort((reason) =>
      stop(options.signal.reason, () =>
        reason instanceof Cancelled ? resolve(fail(CANCELLED_DURING)) : reject(reason),
      ),
    );
    if (over) return;
    attempt(tool, args, context).then((result) => {
      if (over)
        options.log.debug({ tool: tool.name, status: result.status }, 'a tool ended after it was stopped');
      else finish(() => resolve(result));
    }, reject);
  });
}

async function attempt(tool: Tool, args: Record<string, unknown>, context: ToolContext): Promise<ToolResult> {
  try {
    const result: unknown = await tool.execute(args, context);
    return isToolResult(result) ? result : fail(`The tool ${tool.name} gave no usable result.`);
  } catch (error) {
    const message = error instanceof Error ? error.message || error.name : String(error);
    return fail(`The tool ${tool.name} failed: ${message}`);
  }
}

function isToolResult(value: unknown): value is ToolResult {
  if (typeof value !== 'object' || value === null) return false;
  const { status, content } = value as Partial<ToolResult>;
  return (
    (status === 'success' || status === 'error') && (typeof content === 'string' || Array.isArray(content))
  );
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
    ...(result.display === undefined ? {} : { display: result.display }),
    duration_ms: run.options.clock.now() - startedMs,
  });
  return { block, terminate: result.terminate === true, hint, end };
}

/** Vendors reject empty results. */
const NO_OUTPUT = '(no output)';

export function resultBlock(id: string, { content, status }: ToolResult, maxChars: number): ToolResultBlock {
  const cut = truncateContent(content.length === 0 ? NO_OUTPUT : content, maxChars);
  return {
    type: 'tool_result',
    tool_use_id: id,
    content: cut,
    ...(status === 'error' ? { is_error: true } : {}),
  };
}
