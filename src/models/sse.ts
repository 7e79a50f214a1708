// Model layer: the bytes of an answer → the payloads of its events → the reply. Read here and not by the SDKs, which give
// up on what vendors and proxies really send: empty events, pings in words, a last event without its line end, one line
// end where two belong, an error under another name.
import type { ModelEvent } from '../ports/model.ts';
import { CallError } from './errors.ts';
import type { Reply } from './reply.ts';

export interface ServerEvent {
  /** Empty: it has no name. */
  event: string;
  data: string;
  /** The text ended in it: it may be half of one. */
  cut?: boolean;
}

export interface EventParser {
  /** The events that are complete with this piece of the text. */
  push(text: string): ServerEvent[];
  /** The last one, if it lacks its end. */
  end(): ServerEvent[];
}

/** Server-sent events (WHATWG HTML, 9.2.6), from any pieces of their text. */
export function createEventParser(): EventParser {
  /** The line that is still incomplete. */
  let rest = '';
  let event = '';
  let data: string[] = [];
  let afterCr = false;

  const dispatch = (events: ServerEvent[]) => {
    if (data.length > 0) events.push({ event, data: data.join('\n') });
    event = '';
    data = [];
  };
  const take = (line: string, events: ServerEvent[]) => {
    if (line === '') return dispatch(events);
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
  };

  return {
    push(text) {
      if (text === '') return [];
      const events: ServerEvent[] = [];
      // A CR at the end of the piece before has ended its line already.
      const lines = (rest + (afterCr && text.startsWith('\n') ? text.slice(1) : text)).split(/\r\n|\r|\n/);
      afterCr = text.endsWith('\r');
      rest = lines.pop() ?? '';
      for (const line of lines) take(line, events);
      return events;
    },
    end() {
      const events: ServerEvent[] = [];
      if (rest !== '') take(rest, events);
      dispatch(events);
      for (const last of events) last.cut = true;
      return events;
    },
  };
}

/** What the payloads of an answer are fed to. */
export interface PayloadReader {
  /** Throws CallError when the payload is an error. */
  push(payload: unknown): void;
  /** The model said why it stopped: only its usage may follow. */
  readonly finished: boolean;
}

/** How long the end of an answer is waited for once the model has stopped: some servers never close, nor say [DONE]. */
const LAST_WORDS_MS = 2_000;

/** Reads an answer into `reader`, yielding what the reply says of it, until [DONE] or the end. Throws CallError and what the connection throws. */
export async function* readAnswer(
  { body }: Response,
  reader: PayloadReader,
  reply: Reply,
): AsyncGenerator<ModelEvent[]> {
  if (!body) return;
  const bytes = body.getReader();
  const parser = createEventParser();
  const decoder = new TextDecoder();
  // Cancelling ends a read that waits. What failed has been thrown already.
  const leave = () => bytes.cancel().catch(() => undefined);
  let timer: NodeJS.Timeout | undefined;
  try {
    for (let done = false; !done;) {
      const chunk = await bytes.read();
      const events = chunk.done ? parser.end() : parser.push(decoder.decode(chunk.value, { stream: true }));
      done = chunk.done || events.some(isDone);
      for (const event of events) {
        if (isDone(event)) break;
        for (const payload of payloadsOf(event)) reader.push(payload);
      }
      const said = reply.take();
      if (said.length > 0) yield said;
      if (reader.finished) timer ??= setTimeout(() => void leave(), LAST_WORDS_MS);
    }
  } catch (error) {
    // What stood before it in the same packet.
    yield reply.take();
    throw error;
  } finally {
    clearTimeout(timer);
    await leave();
  }
  reply.flush();
  yield reply.take();
}

const isDone = ({ data }: ServerEvent): boolean => data.startsWith('[DONE]');

/** What may be JSON: everything else is a sign of life. */
const JSON_START = /^\s*[[{]/;

function payloadsOf({ event, data, cut = false }: ServerEvent): unknown[] {
  const values = JSON_START.test(data) ? parse(data, cut).flat() : [];
  if (event !== 'error') return values;
  // Some put the error itself there, some only its text.
  return (values.length > 0 ? values : [data]).map((value) => ({
    type: 'error',
    error: (value as { error?: unknown }).error ?? value,
  }));
}

/** Usually one value; several, where line ends between events are missing. Half an event that was cut is left out: the answer has no end then, which says more. */
function parse(data: string, cut: boolean): unknown[] {
  const whole = tryParse(data);
  if (whole !== undefined) return [whole];
  const lines = data.split('\n').filter((line) => JSON_START.test(line) && !line.startsWith('[DONE]'));
  const values = lines.map((line) => tryParse(line));
  if (cut && values.at(-1) === undefined) values.pop();
  if (values.includes(undefined))
    throw new CallError({ code: 'garbled', message: 'an event of the stream is not JSON', transport: true });
  return values;
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // The caller tries something else, or says so.
    return undefined;
  }
}
