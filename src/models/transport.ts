// Model layer, the wire's guard: the `fetch` given to both SDKs. It sees bytes, where the SDKs see events, so it alone
// notices a silent connection (pings count as life), an error body in whatever shape, and an answer that is no stream.
import { CallError, failureOfBody } from './errors.ts';

export interface TransportOptions {
  /** No byte for this long, before or in the answer, ends the call. */
  idleTimeoutMs: number;
  /** Turns a JSON answer to a streaming request into a stream of one event (a gateway that ignores `stream: true`). */
  wrapJson: (text: string) => string | undefined;
}

export type Fetch = (url: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** Longest error body that is read. */
const MAX_ERROR_CHARS = 65_536;

export function createTransport({ idleTimeoutMs, wrapJson }: TransportOptions): Fetch {
  return async (url, init = {}) => {
    const controller = new AbortController();
    const abort = () => controller.abort(init.signal?.reason);
    if (init.signal?.aborted) abort();
    init.signal?.addEventListener('abort', abort, { once: true });
    const stall = () =>
      controller.abort(
        new CallError({
          code: 'stalled',
          message: `no byte from the model's endpoint for ${idleTimeoutMs} ms`,
          transport: true,
        }),
      );
    const timer = idleTimeoutMs > 0 ? setTimeout(stall, idleTimeoutMs) : undefined;
    const release = () => {
      clearTimeout(timer);
      init.signal?.removeEventListener('abort', abort);
    };
    try {
      const response = await fetch(url, { ...init, signal: controller.signal });
      timer?.refresh();
      if (!response.ok) throw await errorOf(response);
      const stream = await streamOf(response, wrapJson);
      return new Response(
        stream
          ? watched(stream, {
              alive: () => timer?.refresh(),
              release,
              aborted: () => controller.signal.aborted,
            })
          : null,
        {
          headers: { 'content-type': 'text/event-stream' },
        },
      );
    } catch (error) {
      release();
      throw error;
    }
  };
}

async function errorOf(response: Response): Promise<CallError> {
  const text = (await response.text()).slice(0, MAX_ERROR_CHARS);
  const body = parse(text);
  const failure = failureOfBody(body ?? plain(text), response.status, response.headers);
  return new CallError({ ...failure, status: response.status });
}

/** The body as a stream of events; rejects when it is none. */
async function streamOf(
  response: Response,
  wrapJson: TransportOptions['wrapJson'],
): Promise<ReadableStream<Uint8Array> | undefined> {
  const type = response.headers.get('content-type') ?? '';
  if (!/json|html|xml/.test(type)) return response.body ?? undefined;
  const text = await response.text();
  // Events under a wrong name.
  if (/^\s*(?:data|event|id|:)/.test(text)) return new Response(text).body ?? undefined;
  const body = parse(text);
  const wrapped = body === undefined ? undefined : wrapJson(JSON.stringify(body));
  if (wrapped !== undefined) return new Response(wrapped).body ?? undefined;
  const failure = failureOfBody(body ?? '');
  if (failure.code || failure.message) throw new CallError(failure);
  throw new CallError({
    code: 'no_stream',
    message: `the endpoint answered ${type} instead of a stream (is base_url right?): ${plain(text)}`,
    transport: true,
  });
}

interface Watch {
  /** A chunk came. */
  alive: () => void;
  /** The end, however it comes. */
  release: () => void;
  aborted: () => boolean;
}

/** How long the rest of an answer is waited for that its reader has had enough of, to keep the connection. */
const DRAIN_MS = 1_000;

/** The same bytes, watched. */
function watched(stream: ReadableStream<Uint8Array>, watch: Watch): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            watch.release();
            controller.close();
          } else {
            watch.alive();
            controller.enqueue(value);
          }
        } catch (error) {
          watch.release();
          controller.error(error);
        }
      },
      async cancel(reason) {
        if (watch.aborted()) {
          watch.release();
          return reader.cancel(reason);
        }
        // After `[DONE]` the reader leaves; cancelling here would close a connection that is as good as free. An abort
        // still reaches it.
        drain(reader).then(watch.release, watch.release);
      },
    },
    { highWaterMark: 0 },
  );
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  const timer = setTimeout(() => void reader.cancel().catch(() => undefined), DRAIN_MS);
  try {
    while (!(await reader.read()).done);
  } finally {
    clearTimeout(timer);
  }
}

function parse(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Words of an HTML page or plain text, for an error message. */
const plain = (text: string): string =>
  text
    .replaceAll(/<(script|style)[\s\S]*?<\/\1>/gi, ' ')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, 300);
