// Model layer, the wire's guard: the `fetch` given to both SDKs. It sees bytes, so it alone
// notices a silent connection (pings count as life), an error body in whatever shape, an answer that is no stream, and half a character.
import { CallError, failureOfBody } from './errors.ts';
import { wholeCharacters } from './whole-characters.ts';

export interface TransportOptions {
  /** No byte for this long, before or in the answer, ends the call. */
  idleTimeoutMs: number;
  /** Turns a JSON answer to a streaming request into a stream of one event (a gateway that ignores `stream: true`). */
  wrapJson: (text: string) => string | undefined;
}

export type Fetch = (url: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** How much is read of an error's body, and of an answer that comes in one piece. */
const MAX_ERROR_BYTES = 65_536;
const MAX_DOCUMENT_BYTES = 64 * 1024 * 1024;

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
      const body = typeof init.body === 'string' ? { body: wholeCharacters(init.body) } : {};
      const response = await fetch(url, { ...init, ...body, signal: controller.signal });
      const alive = () => timer?.refresh();
      alive();
      const reader = response.body?.getReader();
      if (!response.ok)
        throw errorOf(response, reader ? await textOf(reader, [], { alive, maxBytes: MAX_ERROR_BYTES }) : '');
      if (!reader) throw noStream(response, '');
      const { chunks, isDocument } = await opening(reader, alive);
      if (!isDocument)
        return eventStream(
          watched(reader, chunks, { alive, release, aborted: () => controller.signal.aborted }),
        );
      const text = await textOf(reader, chunks, { alive, maxBytes: MAX_DOCUMENT_BYTES });
      release();
      return eventStream(asEvents(response, text, wrapJson));
    } catch (error) {
      release();
      throw error;
    }
  };
}

const eventStream = (body: BodyInit): Response =>
  new Response(body, { headers: { 'content-type': 'text/event-stream' } });

function errorOf({ status, headers }: Response, text: string): CallError {
  return new CallError({ ...failureOfBody(parse(text) ?? plain(text), status, headers), status });
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * The chunks up to the first that is more than white space, and whether a document begins there, JSON or a page. What the
 * headers say of it is often wrong.
 */
async function opening(
  reader: Reader,
  alive: () => void,
): Promise<{ chunks: Uint8Array[]; isDocument: boolean }> {
  const chunks: Uint8Array[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { chunks, isDocument: false };
    alive();
    chunks.push(value);
    const first = value.find((byte) => !BLANK.has(byte));
    if (first !== undefined) return { chunks, isDocument: DOCUMENT.has(first) };
  }
}

/** White space, and the bytes of a byte order mark. */
const BLANK: ReadonlySet<number> = new Set([0x09, 0x0a, 0x0d, 0x20, 0xef, 0xbb, 0xbf]);
/** `{`, `[`, `<` */
const DOCUMENT: ReadonlySet<number> = new Set([0x7b, 0x5b, 0x3c]);

/** The rest of a body as text; what is beyond `maxBytes` is left out. */
async function textOf(
  reader: Reader,
  opened: Uint8Array[],
  { alive, maxBytes }: { alive: () => void; maxBytes: number },
): Promise<string> {
  const chunks = [...opened];
  let bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  while (bytes < maxBytes) {
    const { done, value } = await reader.read();
    if (done) break;
    alive();
    chunks.push(value);
    bytes += value.length;
  }
  if (bytes >= maxBytes) await reader.cancel();
  return new TextDecoder().decode(Buffer.concat(chunks).subarray(0, maxBytes));
}

/** An answer in one piece as a stream of one event; throws when it is none. */
function asEvents(response: Response, text: string, wrapJson: TransportOptions['wrapJson']): string {
  const body = parse(text);
  const wrapped = body === undefined ? undefined : wrapJson(JSON.stringify(body));
  if (wrapped !== undefined) return wrapped;
  const failure = failureOfBody(body ?? '');
  throw failure.code || failure.message ? new CallError(failure) : noStream(response, text);
}

function noStream({ headers }: Response, text: string): CallError {
  const type = headers.get('content-type') ?? 'something';
  return new CallError({
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

/** The bytes, those that were read already first; watched. */
function watched(reader: Reader, opened: Uint8Array[], watch: Watch): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = opened.shift();
        if (chunk) return controller.enqueue(chunk);
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

async function drain(reader: Reader): Promise<void> {
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
