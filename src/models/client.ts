// Model layer: what both vendors' clients share. A vendor brings one function that makes a call and fills a reply; here
// are the promises of the port: it never throws, ends with exactly one done or failed, and stops when told to.
import type { ModelClient, ModelEvent, ModelRequest, ReplyBlock } from '../ports/model.ts';
import type { StopReason, Usage } from '../domain/messages.ts';
import { CallError, classify, failureOf, type Failure } from './errors.ts';
import type { Reply } from './reply.ts';
import type { ModelEntry } from './settings.ts';
import { readAnswer, type PayloadReader } from './sse.ts';

export interface Finished {
  content: ReplyBlock[];
  stop: Exclude<StopReason, 'error' | 'aborted'>;
  usage?: Usage;
  /** The end that the vendor gave is a failure in disguise. */
  failure?: Failure;
}

/** One attempt. `events` yields while the answer grows and may throw; `finish` says what came of it, whenever. */
export interface Attempt {
  events(): AsyncIterable<ModelEvent[]>;
  /** The vendor said why it stopped. */
  complete(): boolean;
  finish(): Finished;
}

/** What a vendor's stream makes of the payloads. */
export interface AnswerStream extends PayloadReader {
  /** `taken`: ids of calls that the history has already. */
  finish(taken: (id: string) => boolean): Finished;
}

interface AttemptOptions {
  request: ModelRequest;
  reply: Reply;
  stream: AnswerStream;
  /** Makes the call. */
  send: () => Promise<Response>;
}

export function createAttempt({ request, reply, stream, send }: AttemptOptions): Attempt {
  return {
    async *events() {
      yield* readAnswer(await send(), stream, reply);
    },
    complete: () => stream.finished,
    finish: () => stream.finish((id) => hasCall(request.messages, id)),
  };
}

const hasCall = (messages: ModelRequest['messages'], id: string): boolean =>
  messages.some(({ content }) => content.some((block) => block.type === 'tool_use' && block.id === id));

/** Loads once, at the first use; a load that failed is tried again at the next. */
export function lazily<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

export interface ClientOptions {
  entry: ModelEntry;
  /** Rejects only if the SDK can't be loaded. */
  attempt: (request: ModelRequest, key: string, signal: AbortSignal) => Promise<Attempt>;
  /** A failed attempt that may be made again at once, differently: the vendor said what it can't take. */
  learn?: (failure: Failure) => boolean;
}

export function createClient({ entry, attempt, learn }: ClientOptions): ModelClient {
  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    const key = request.apiKey ?? entry.keys[0] ?? '';
    for (;;) {
      const end = yield* once(request, key, signal);
      if (end) {
        yield end;
        return;
      }
    }
  }

  /** The last event; undefined: something was learnt, make the call again. */
  async function* once(
    request: ModelRequest,
    key: string,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, ModelEvent | undefined> {
    let call: Attempt | undefined;
    let failure: Failure | undefined;
    let streamed = false;
    let ended = false;
    // Ends the connection when the reader walks away in the middle.
    const own = new AbortController();
    const abort = () => own.abort(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    try {
      call = await attempt(request, key, own.signal);
      for await (const events of call.events()) {
        if (events.length > 0) streamed = true;
        yield* events;
      }
      ended = true;
    } catch (error) {
      failure = failureOf(error);
    } finally {
      signal.removeEventListener('abort', abort);
      if (!ended) own.abort();
    }
    const finished = call?.finish() ?? { content: [], stop: 'stop' as const };
    const { content, usage } = finished;
    const rest = { content, model: entry.name, ...(usage && { usage }) };
    // What the vendor completed stays complete, whatever happened to the connection afterwards.
    const complete = call?.complete() ?? false;
    if (signal.aborted && !complete) return { type: 'failed', stop: 'aborted', ...aborted(rest) };
    if (!complete) failure ??= PREMATURE_END;
    else failure = finished.failure ?? silentOverflow(finished, entry);
    if (!failure) return { type: 'done', stop: finished.stop, ...rest };
    if (!streamed && learn?.(failure)) return undefined;
    const error = classify(failure, [key, ...entry.keys]);
    return { type: 'failed', stop: 'error', error, ...aborted(rest) };
  }

  return {
    name: entry.name,
    contextWindow: entry.contextWindow,
    maxOutputTokens: entry.maxOutputTokens,
    images: entry.images,
    stream,
  };
}

/** Of an answer that was cut off only text and thinking are worth keeping: half a call must never run. */
const aborted = <Rest extends { content: ReplyBlock[] }>(rest: Rest): Rest => ({
  ...rest,
  content: rest.content.filter((block) => block.type !== 'tool_call'),
});

const PREMATURE_END: Failure = {
  code: 'premature_end',
  message: 'the stream ended before the model said why it stopped',
  transport: true,
};

/** Vendors that cut a prompt that is too long without a word give themselves away by their counts. */
function silentOverflow({ content, stop, usage }: Finished, entry: ModelEntry): Failure | undefined {
  const over = usage !== undefined && usage.input > entry.contextWindow;
  const mute = stop === 'length' && content.length === 0 && (usage?.output ?? 0) === 0;
  if (!over && !mute) return undefined;
  return new CallError({
    code: 'context_length_exceeded',
    message: over
      ? `the vendor counted ${usage.input} input tokens, more than the context window of ${entry.contextWindow}`
      : 'the model stopped for length without a single token: the context window is full',
  }).failure;
}
