// Tools of the stage post_process: run once each after the run has answered, without arguments. A failure is logged,
// never fatal. The journal knows which have started: after a crash only idempotent ones are run again.
import { postCallId } from './resume.ts';
import { write, type Run } from './run.ts';
import { blocked, runTool } from './tool-call.ts';

export async function runPostProcess(run: Run, started: ReadonlySet<string>): Promise<void> {
  const { log, tools } = run.options;
  for (const tool of tools) {
    const callId = postCallId(tool.name);
    if (tool.stage !== 'post_process' || (started.has(callId) && !tool.idempotent)) continue;
    // The answer is there: a cancel only leaves out what comes after it.
    if (run.abort.cancelled()) return;
    const call = { type: 'tool_use', id: callId, name: tool.name, input: {} } as const;
    const objection = await blocked(run, { call, args: {}, tool, turn: run.turn });
    if (objection !== undefined) {
      log.info({ tool: tool.name, reason: objection }, 'a post-process tool was not allowed');
      continue;
    }
    await write(run, { v: 1, kind: 'tool_start', call_id: callId });
    const { status, content } = await runTool(run, tool, {}, callId, run.options.clock.now());
    if (status === 'error') log.warn({ tool: tool.name, result: content }, 'a post-process tool failed');
  }
}
