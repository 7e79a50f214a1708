// A tool at work: what it is given, and the end of it, whichever comes first: its result, its timeout, or the run's stop.
// A class with lazy parts where closures would be simpler: many tools are done in less time than those take to make.
import type { Sender } from '../domain/inbound.ts';
import type { Logger } from '../ports/log.ts';
import type { MediaStore } from '../ports/media.ts';
import { fail, type Tool, type ToolContext, type ToolResult } from '../ports/tool.ts';
import { Cancelled, type Stop, type Waiting } from './abort.ts';
import type { Deadline } from './deadlines.ts';
import { hasBytes, keepPictures, NO_MEDIA } from './files.ts';
import { emit, type Run } from './run.ts';
import { CANCELLED_DURING, timedOut } from './wording.ts';

export class RunningCall implements ToolContext, Waiting, Deadline {
  readonly conversation: string;
  readonly account: string;
  readonly group: boolean;
  readonly sender: Sender;
  readonly callId: string;
  readonly media: MediaStore;
  readonly log: Logger;
  readonly atMs: number;
  /** Resolves with the result, whatever happens; rejects with RunInterrupted only. */
  readonly result: Promise<ToolResult>;
  #run: Run;
  #tool: Tool;
  #timeoutMs: number;
  #controller: AbortController | undefined;
  #stopReason: unknown;
  #over = false;
  #resolve!: (result: ToolResult) => void;
  #reject!: (stop: Stop) => void;

  constructor(run: Run, tool: Tool, callId: string, startedMs: number) {
    const { base, log, settings } = run.options;
    this.conversation = base.conversation;
    this.account = base.account;
    this.group = base.group;
    this.sender = run.sender;
    this.callId = callId;
    this.media = run.options.media ?? NO_MEDIA;
    this.log = log;
    this.#run = run;
    this.#tool = tool;
    this.#timeoutMs = tool.timeoutMs ?? settings.tool_timeout_ms;
    this.atMs = startedMs + this.#timeoutMs;
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#stopReason !== undefined) this.#controller.abort(this.#stopReason);
    }
    return this.#controller.signal;
  }

  /** Bound, since tools take their context apart. What is said after the end is nobody's business any more. */
  get progress(): (text: string) => void {
    return (text) => {
      if (!this.#over) emit(this.#run, { type: 'tool_execution_progress', call_id: this.callId, text });
    };
  }

  start(args: Record<string, unknown>): void {
    try {
      this.#tool.execute(args, this).then(
        (result) => this.#settled(result),
        (error: unknown) => this.#settled(this.#thrown(error)),
      );
      this.#run.abort.add(this);
      if (this.#timeoutMs > 0) this.#run.deadlines.add(this);
    } catch (error) {
      this.#settled(this.#thrown(error));
    }
  }

  expired(): void {
    this.#end('timeout');
    this.#resolve(fail(timedOut(this.#timeoutMs)));
  }

  stopped(stop: Stop): void {
    this.#end(this.#run.options.signal.reason);
    if (stop instanceof Cancelled) this.#resolve(fail(CANCELLED_DURING));
    else this.#reject(stop);
  }

  #settled(result: unknown): void {
    if (this.#over) {
      this.log.debug({ tool: this.#tool.name }, 'a tool ended after it was stopped');
      return;
    }
    if (isToolResult(result) && hasBytes(result)) {
      // Still at work: it can be stopped, and its time runs.
      keepPictures(this.media, result).then(
        (kept) => this.#settled(kept),
        (error: unknown) => this.#settled(this.#thrown(error)),
      );
      return;
    }
    this.#end();
    this.#resolve(isToolResult(result) ? result : fail(`The tool ${this.#tool.name} gave no usable result.`));
  }

  #thrown(error: unknown): ToolResult {
    const message = error instanceof Error ? error.message || error.name : String(error);
    return fail(`The tool ${this.#tool.name} failed: ${message}`);
  }

  /** With a reason: it was stopped, and is told so. */
  #end(stopReason?: unknown): void {
    this.#over = true;
    this.#run.abort.remove(this);
    this.#run.deadlines.remove(this);
    if (stopReason === undefined) return;
    this.#stopReason = stopReason;
    this.#controller?.abort(stopReason);
  }
}

function isToolResult(value: unknown): value is ToolResult {
  if (typeof value !== 'object' || value === null) return false;
  const { status, content } = value as Partial<ToolResult>;
  return (
    (status === 'success' || status === 'error') && (typeof content === 'string' || Array.isArray(content))
  );
}
