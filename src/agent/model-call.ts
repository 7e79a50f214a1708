// One call of the model: the request, the stream, and its end as a value. Cancelling is felt here at once, whatever the
// client does; text that had arrived is not lost.
import type { Message } from '../domain/messages.ts';
import type { ModelEvent, ModelRequest, ReplyBlock } from '../ports/model.ts';
import { Cancelled, type Stop, type Waiting } from './abort.ts';
import { estimateMessages, estimatePrompt } from './context/estimate.ts';
import { repair } from './pairing.ts';
import { addUsage, ask, type DeltaSink, type Run } from './run.ts';

export type ModelReply = Extract<ModelEvent, { type: 'done' | 'failed' }>;

/** How long a cancelled call may take to end by itself and report its usage; then it is left behind. */
const GRACE_MS = 100;

/** Streams one reply for the run's view, emitting its deltas. Never rejects, except with RunInterrupted. */
export function callModel(run: Run, allowTools: boolean): Promise<ModelReply> {
  const request = requestFor(run, allowTools);
  return run.options.hooks ? callWithHooks(run, request) : streamReply(run, request, run.sink);
}

async function callWithHooks(run: Run, request: ModelRequest): Promise<ModelReply> {
  try {
    return await streamReply(run, await withHooks(run, request), run.sink);
  } catch (error) {
    if (error instanceof Cancelled) return abortedReply(run, '');
    throw error;
  }
}

function requestFor(run: Run, allowTools: boolean): ModelRequest {
  const { system, base } = run.options;
  const request: ModelRequest = {
    system,
    // Live: a client must not keep it beyond the call.
    messages: run.transcript.view as Message[],
    tools: run.specs,
    allowTools: allowTools && run.specs.length > 0,
    cacheKey: base.cacheKey,
  };
  if (run.thinking !== undefined) request.thinking = run.thinking;
  return request;
}

async function withHooks(run: Run, request: ModelRequest): Promise<ModelRequest> {
  const { hooks, signal } = run.options;
  let { messages } = request;
  if (hooks?.transformContext) {
    messages =
      (await ask(run, 'transformContext', () => hooks.transformContext?.(messages, signal))) ?? messages;
  }
  if (hooks?.convertToModel) {
    messages = (await ask(run, 'convertToModel', () => hooks.convertToModel?.(messages))) ?? messages;
  }
  const apiKey = hooks?.getApiKey && (await ask(run, 'getApiKey', () => hooks.getApiKey?.(run.model.name)));
  return {
    ...request,
    messages: messages === request.messages ? messages : repair(messages),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
}

/** The stream's end as a value. Rejects with RunInterrupted only. */
export function streamReply(run: Run, request: ModelRequest, sink: DeltaSink): Promise<ModelReply> {
  const { abort } = run;
  const stream = new ReplyStream(run);
  abort.add(stream);
  read(run, request, sink, stream).then((reply) => stream.ended(reply), stream.reject);
  return stream.reply;
}

/** A reply under way: its end, or the run's, whichever comes first. */
class ReplyStream implements Waiting {
  readonly reply: Promise<ModelReply>;
  /** Text that has arrived. */
  text = '';
  /** Nobody waits any more. */
  left = false;
  reject!: (error: unknown) => void;
  #resolve!: (reply: ModelReply) => void;
  #grace: AbortController | undefined;
  #run: Run;

  constructor(run: Run) {
    this.#run = run;
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.reject = reject;
    });
  }

  ended(reply: ModelReply): void {
    const { abort } = this.#run;
    abort.remove(this);
    this.#grace?.abort('ended');
    const aborted = reply.type === 'failed' && abort.signal.aborted;
    this.#resolve(aborted ? abortedReply(this.#run, this.text, reply) : reply);
  }

  stopped(stop: Stop): void {
    if (!(stop instanceof Cancelled)) {
      this.left = true;
      this.reject(stop);
      return;
    }
    this.#grace = new AbortController();
    this.#run.options.clock.sleep(GRACE_MS, this.#grace.signal).then(
      () => {
        this.left = true;
        this.#resolve(abortedReply(this.#run, this.text));
      },
      () => {
        // The stream ended within its grace.
      },
    );
  }
}

async function read(
  run: Run,
  request: ModelRequest,
  sink: DeltaSink,
  stream: ReplyStream,
): Promise<ModelReply> {
  try {
    for await (const event of run.model.stream(request, run.abort.signal)) {
      if (stream.left) break;
      switch (event.type) {
        case 'text':
          stream.text += event.delta;
          sink.text(event.delta);
          break;
        case 'thinking':
          sink.thinking(event.delta);
          break;
        case 'reset':
          stream.text = '';
          sink.reset();
          break;
        default:
          addUsage(run, event.usage);
          learn(run, request, event);
          return event;
      }
    }
    return failedReply(run, stream.text, 'The stream ended without an end.', true);
  } catch (error) {
    // Against the port's contract; the run must survive it all the same.
    return failedReply(run, stream.text, error instanceof Error ? error.message : String(error), false);
  }
}

function failedReply(run: Run, text: string, why: string, retryable: boolean): ModelReply {
  const error = { kind: 'network', message: why.slice(0, 500), retryable } as const;
  return { type: 'failed', stop: 'error', error, content: textContent(text), model: run.model.name };
}

function abortedReply(run: Run, text: string, reply?: ModelReply): ModelReply {
  const content = reply && reply.content.length > 0 ? reply.content : textContent(text);
  return {
    type: 'failed',
    stop: 'aborted',
    content,
    model: run.model.name,
    ...(reply?.usage ? { usage: reply.usage } : {}),
  };
}

const textContent = (text: string): ReplyBlock[] => (text === '' ? [] : [{ type: 'text', text }]);

/** In small requests fixed costs dominate: they say nothing about text. */
const WORTH_LEARNING_TOKENS = 200;

/** What the model counted against what was estimated, now and then. */
function learn(run: Run, request: ModelRequest, reply: ModelReply): void {
  const { calibration, options } = run;
  const actual = reply.usage?.input ?? 0;
  if (actual < WORTH_LEARNING_TOKENS) return;
  const now = options.clock.now();
  if (!calibration.due(reply.model, now)) return;
  const estimated = estimatePrompt(request.system, request.tools) + estimateMessages(request.messages);
  calibration.learn(reply.model, estimated, actual, now);
}
