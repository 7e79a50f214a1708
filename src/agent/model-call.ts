// One call of the model: the request, the stream, and its end as a value. Cancelling is felt here at once, whatever the
// client does; text that had arrived is not lost.
import type { Message } from '../domain/messages.ts';
import type { ModelError, ModelEvent, ModelRequest, ReplyBlock } from '../ports/model.ts';
import { Cancelled, type Stop } from './abort.ts';
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
  const { abort, options } = run;
  const { promise, resolve, reject } = Promise.withResolvers<ModelReply>();
  const state: StreamState = { text: '', left: false };
  let grace: AbortController | undefined;
  const waiting = {
    stopped(stop: Stop) {
      if (!(stop instanceof Cancelled)) {
        state.left = true;
        reject(stop);
        return;
      }
      grace = new AbortController();
      options.clock.sleep(GRACE_MS, grace.signal).then(
        () => {
          state.left = true;
          resolve(abortedReply(run, state.text));
        },
        () => {
          // The stream ended within its grace.
        },
      );
    },
  };
  abort.add(waiting);
  pump(run, request, sink, state).then((reply) => {
    abort.remove(waiting);
    grace?.abort('ended');
    resolve(reply.type === 'failed' && abort.signal.aborted ? abortedReply(run, state.text, reply) : reply);
  }, reject);
  return promise;
}

interface StreamState {
  /** Text that has arrived. */
  text: string;
  /** Nobody waits any more. */
  left: boolean;
}

async function pump(
  run: Run,
  request: ModelRequest,
  sink: DeltaSink,
  state: StreamState,
): Promise<ModelReply> {
  try {
    for await (const event of run.model.stream(request, run.abort.signal)) {
      if (state.left) break;
      switch (event.type) {
        case 'text':
          state.text += event.delta;
          sink.text(event.delta);
          break;
        case 'thinking':
          sink.thinking(event.delta);
          break;
        case 'reset':
          state.text = '';
          sink.reset();
          break;
        default:
          addUsage(run, event.usage);
          learn(run, request, event);
          return event;
      }
    }
    return failedReply(run, state.text, {
      kind: 'network',
      message: 'The stream ended without an end.',
      retryable: true,
    });
  } catch (error) {
    // Against the port's contract; the run must survive it all the same.
    const message = error instanceof Error ? error.message : String(error);
    return failedReply(run, state.text, {
      kind: 'network',
      message: message.slice(0, 500),
      retryable: false,
    });
  }
}

function failedReply(run: Run, text: string, error: ModelError): ModelReply {
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
  const now = options.clock.now();
  if (actual < WORTH_LEARNING_TOKENS || !calibration.due(reply.model, now)) return;
  const estimated = estimatePrompt(request.system, request.tools) + estimateMessages(request.messages);
  calibration.learn(reply.model, estimated, actual, now);
}
