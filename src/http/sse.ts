// Server-sent events: the one writer behind the webhook's event stream, OpenAI streaming and the chat page.
// Between a RunEventLog subscription and the client's socket. A stream ends when its client leaves, when the app
// closes, when it is ended, or when a client stops reading: whoever resumes sends Last-Event-ID and misses nothing.
import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { EventSubscription, LoggedEvent } from '../ports/events.ts';

export interface ServerEvent {
  /** Sent as Last-Event-ID by a client that comes back. Absent: resumption is unaffected by this event. */
  id?: string;
  /** Default `message`. */
  event?: string;
  /** A string is sent as it is, anything else as JSON. */
  data: unknown;
}

export interface EventStream {
  /** Aborted when the stream is over, whatever ended it: pass it to whatever feeds the stream. */
  signal: AbortSignal;
  /** Waits while the client's buffer is full. False: the stream is over, stop feeding it. Never rejects. */
  send(event: ServerEvent): Promise<boolean>;
  /** Ends the answer. Idempotent. */
  end(): void;
}

export interface EventStreams {
  /** Takes the reply over and sends the headers: from here on errors can only be events. */
  open(reply: FastifyReply): EventStream;
  /** How many are open. */
  size(): number;
  /** Ends all; a later open() ends at once. For the app's preClose hook: an open stream would hold the close up. */
  closeAll(): void;
}

export interface EventStreamsOptions {
  /** A comment is sent this often, so that proxies keep the connection and a dead client is noticed. */
  heartbeatMs?: number;
  /** A client that has read nothing for this long is cut off. */
  stalledMs?: number;
}

export function createEventStreams(options: EventStreamsOptions = {}): EventStreams {
  const heartbeatMs = options.heartbeatMs ?? 15_000;
  const stalledMs = options.stalledMs ?? 60_000;
  const open = new Set<EventStream>();
  let closed = false;

  return {
    open(reply) {
      // Headers that hooks have set (content security policy, cookies) would be lost with the hijack: hand them on.
      const headers = reply.getHeaders();
      reply.hijack();
      const stream = createStream(reply.raw, headers, heartbeatMs, stalledMs);
      open.add(stream);
      stream.signal.addEventListener('abort', () => open.delete(stream), { once: true });
      if (stream.signal.aborted) open.delete(stream);
      if (closed) stream.end();
      return stream;
    },
    size: () => open.size,
    closeAll() {
      closed = true;
      for (const stream of open) stream.end();
    },
  };
}

/** Feeds a stream from a subscription until either is over; `map` says what each event becomes. Closes the subscription. */
export async function streamEvents(
  stream: EventStream,
  subscription: EventSubscription,
  /** Returns the events to send (none to skip it), or 'end' to end the stream. */
  map: (logged: LoggedEvent) => ServerEvent | ServerEvent[] | 'end' | undefined,
): Promise<void> {
  try {
    for await (const logged of subscription) {
      const mapped = map(logged);
      if (mapped === 'end') return;
      if (mapped === undefined) continue;
      for (const event of Array.isArray(mapped) ? mapped : [mapped]) if (!(await stream.send(event))) return;
    }
  } finally {
    stream.end();
    await subscription.close();
  }
}

/** Where a client that comes back wants to go on. */
export function lastEventId(request: FastifyRequest): string | undefined {
  const header = request.headers['last-event-id'];
  return typeof header === 'string' && header !== '' ? header : undefined;
}

/** Aborted when the answer is complete or its client has left. */
export function clientSignal(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const left = () => controller.abort('closed');
  if (reply.raw.destroyed) left();
  else reply.raw.once('close', left);
  return controller.signal;
}

/** The text of one event as it goes over the wire. */
export function formatEvent({ id, event, data }: ServerEvent): string {
  let text = '';
  if (event !== undefined) text += `event: ${oneLine(event)}\n`;
  if (id !== undefined) text += `id: ${oneLine(id)}\n`;
  const body = typeof data === 'string' ? data : JSON.stringify(data);
  for (const line of body.split(/\r\n|\r|\n/)) text += `data: ${line}\n`;
  return `${text}\n`;
}

// A line break in a field would start another field; NUL voids an id.
const oneLine = (value: string): string => value.replaceAll(/[\r\n\0]/g, '');

function createStream(
  raw: ServerResponse,
  headers: Record<string, number | string | string[] | undefined>,
  heartbeatMs: number,
  stalledMs: number,
): EventStream {
  const over = new AbortController();
  const heartbeat = setInterval(() => {
    // A full buffer needs no heartbeat; the stall time-out watches it.
    if (!raw.writableNeedDrain) raw.write(': keep-alive\n\n');
  }, heartbeatMs);

  const finish = (): void => {
    clearInterval(heartbeat);
    over.abort();
  };
  raw.once('close', finish);
  // A write after the client has gone surfaces here; `close` follows and says all that there is to say.
  raw.on('error', finish);

  for (const [name, value] of Object.entries(headers)) if (value !== undefined) raw.setHeader(name, value);
  raw.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  });
  raw.flushHeaders();
  if (raw.destroyed) finish();

  const drained = (): Promise<void> =>
    new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        raw.off('drain', done);
        over.signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(() => raw.destroy(), stalledMs);
      raw.once('drain', done);
      over.signal.addEventListener('abort', done, { once: true });
      if (over.signal.aborted) done();
    });

  return {
    signal: over.signal,
    async send(event) {
      if (over.signal.aborted || raw.writableEnded) return false;
      if (!raw.write(formatEvent(event))) await drained();
      return !over.signal.aborted;
    },
    end() {
      if (!raw.writableEnded) raw.end();
      finish();
    },
  };
}
