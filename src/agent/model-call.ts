// One call of the model: the request, the stream, and its end as a value. Cancelling is felt here at once, whatever the
// client does; text that had arrived is not lost.
import type { Message } from '../domain/messages.ts';
import type { ModelError, ModelEvent, ModelRequest, ReplyBlock } from '../ports/model.ts';
import { Cancelled } from './abort.ts';
import { estimateMessages, estimatePrompt } from './context/estimate.ts';
import { repair } from './pairing.ts';
import { addUsage, ask, emit, type Run } from './run.ts';

export type ModelReply = Extract<ModelEvent, { type: 'done' | 'failed' }>;

/** How long a cancelled call may take to end by itself and report its usage; then it is left behind. */
const GRACE_MS = 100;

/** Streams one reply for the run's view, emitting its deltas. Never rejects, except with RunInterrupted. */
export async function callModel(run: Run, allowTools: boolean): Promise<ModelReply> {
  let request: ModelRequest;
  try {
    request = await buildRequest(run, allowTools);
  } catch (error) {
    if (error instanceof Cancelled) return abortedReply(run, '');
    throw error;
  }
  const reply = await streamReply(run, request, {
    text: (delta) => emit(run, { type: 'message_update', delta }),
    thinking: (delta) => emit(run, { type: 'reasoning_update', delta }),
    reset: () => emit(run, { type: 'message_reset' }),
  });
  addUsage(run, reply.usage);
  learn(run, request, reply);
  return reply;
}

async function buildRequest(run: Run, allowTools: boolean): Promise<ModelRequest> {
  const { system, base, hooks, signal } = run.options;
  let messages: Message[] = run.transcript.view as Message[];
  if (hooks?.transformContext ?? hooks?.convertToModel) {
    const given = messages;
    const transformed =
      (await ask(run, 'transformContext', () => hooks.transformContext?.(given, signal))) ?? given;
    const converted =
      (await ask(run, 'convertToModel', () => hooks.convertToModel?.(transformed))) ?? transformed;
    messages = repair(converted);
  }
  const apiKey = hooks?.getApiKey && (await ask(run, 'getApiKey', () => hooks.getApiKey?.(run.model.name)));
  return {
    system,
    messages,
    tools: run.specs,
    allowTools: allowTools && run.specs.length > 0,
    cacheKey: base.cacheKey,
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(run.thinking === undefined ? {} : { thinking: run.thinking }),
  };
}

export interface DeltaSink {
  text(delta: string): void;
  thinking(delta: string): void;
  reset(): void;
}

/** The stream's end as a value. Rejects with RunInterrupted only. */
export async function streamReply(run: Run, request: ModelRequest, sink: DeltaSink): Promise<ModelReply> {
  const { abort, model } = run;
  let text = '';
  let left = false;

  async function pump(): Promise<ModelReply> {
    try {
      for await (const event of model.stream(request, abort.signal)) {
        if (left) break;
        switch (event.type) {
          case 'text':
            text += event.delta;
            sink.text(event.delta);
            break;
          case 'thinking':
            sink.thinking(event.delta);
            break;
          case 'reset':
            text = '';
            sink.reset();
            break;
          default:
            return event;
        }
      }
      return failedReply(run, text, {
        kind: 'network',
        message: 'The stream ended without an end.',
        retryable: true,
      });
    } catch (error) {
      // Against the port's contract; the run must survive it all the same.
      const message = error instanceof Error ? error.message : String(error);
      return failedReply(run, text, { kind: 'network', message: message.slice(0, 500), retryable: false });
    }
  }

  return new Promise<ModelReply>((resolve, reject) => {
    let grace: AbortController | undefined;
    const leave = () => {
      left = true;
      resolve(abortedReply(run, text));
    };
    const takeBack = abort.onAbort((stop) => {
      if (!(stop instanceof Cancelled)) {
        left = true;
        reject(stop);
        return;
      }
      grace = new AbortController();
      run.options.clock.sleep(GRACE_MS, grace.signal).then(leave, () => {
        // The stream ended within its grace.
      });
    });
    pump().then((reply) => {
      takeBack();
      grace?.abort();
      resolve(reply.type === 'failed' && abort.signal.aborted ? abortedReply(run, text, reply) : reply);
    }, reject);
  });
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

/** What the model counted against what was estimated, now and then. */
function learn(run: Run, request: ModelRequest, reply: ModelReply): void {
  const { calibration, options } = run;
  const now = options.clock.now();
  if (!reply.usage || reply.usage.input === 0 || !calibration.due(reply.model, now)) return;
  const estimated = estimatePrompt(request.system, request.tools) + estimateMessages(request.messages);
  calibration.learn(reply.model, estimated, reply.usage.input, now);
}
