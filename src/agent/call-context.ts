// What a running tool gets. A class, and its signal made when a tool first asks for it: both are measurable when a tool is
// quick and its calls are many.
import type { Sender } from '../domain/inbound.ts';
import type { Logger } from '../ports/log.ts';
import type { ToolContext } from '../ports/tool.ts';
import { emit, type Run } from './run.ts';

export class CallContext implements ToolContext {
  readonly conversation: string;
  readonly account: string;
  readonly group: boolean;
  readonly sender: Sender;
  readonly callId: string;
  readonly log: Logger;
  #run: Run;
  #controller: AbortController | undefined;
  #over = false;
  #stopReason: unknown;

  constructor(run: Run, callId: string) {
    const { conversation, account, group } = run.options.base;
    this.conversation = conversation;
    this.account = account;
    this.group = group;
    this.sender = run.sender;
    this.callId = callId;
    this.log = run.options.log;
    this.#run = run;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#stopReason !== undefined) this.#controller.abort(this.#stopReason);
    }
    return this.#controller.signal;
  }

  /** Bound, since tools take the context apart. Said after the end, it is nobody's business any more. */
  readonly progress = (text: string): void => {
    if (!this.#over) emit(this.#run, { type: 'tool_execution_progress', call_id: this.callId, text });
  };

  /** The call has its result. With a reason: it was stopped, and is told so. */
  end(stopReason?: unknown): void {
    this.#over = true;
    if (stopReason === undefined) return;
    this.#stopReason = stopReason;
    this.#controller?.abort(stopReason);
  }
}
