// The in-process RunEventLog: a short tail of each conversation's run events, kept until it has been quiet for a while.
//
// An id is `<start of the log>-<number>`; numbers rise over all conversations. What is known of an id is
// whether something after it was dropped: each tail remembers the newest that it dropped, the log the newest that any
// forgotten tail held. An id of another process is unknown. Both are answered with a resync.
import type { RunEvent } from '../../domain/events.ts';
import type { EventSubscription, LoggedEvent, RunEventLog } from '../../ports/events.ts';

export interface EventLogOptions {
  /** Events kept for a conversation; up to twice as many at times. */
  maxEvents?: number;
  /** Characters kept for all conversations; the quietest are dropped first. */
  maxChars?: number;
  /** How long events are kept after the last one. */
  idleMs?: number;
}

export interface LocalEvents extends RunEventLog {
  close(): void;
}

interface Entry {
  n: number;
  event: RunEvent;
  chars: number;
}

interface Tail {
  entries: Entry[];
  chars: number;
  /** The newest event that is no longer here. */
  dropped: number;
  /** The newest event. */
  last: number;
  /** The event before the newest agent_start: where the newest run begins. */
  run: number | undefined;
  publishedAt: number;
  readers: Set<Reader>;
}

interface Reader {
  ended: boolean;
  wake: () => void;
  end: () => void;
}

/** What an event takes in memory, roughly; the frequent ones without looking at all of it. */
const charsOf = (event: RunEvent): number =>
  'delta' in event ? event.delta.length + 200 : JSON.stringify(event).length + 200;

/** Index of the first entry after `n`. */
function firstAfter(entries: Entry[], n: number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((entries[middle]?.n ?? Infinity) > n) high = middle;
    else low = middle + 1;
  }
  return low;
}

export function createLocalEvents({
  maxEvents = 2_000,
  maxChars = 16_000_000,
  idleMs = 300_000,
}: EventLogOptions = {}): LocalEvents {
  const start = Date.now();
  /** By last publication, the quietest first. */
  const tails = new Map<string, Tail>();
  let newest = 0;
  let forgotten = 0;
  let chars = 0;
  let sweeper: NodeJS.Timeout | undefined;
  let closed = false;

  const idOf = (n: number) => `${start}-${n}`;

  /** The number of an id of this log; undefined for any other text. */
  function numberOf(id: string): number | undefined {
    const match = /^(\d{1,15})-(\d{1,15})$/.exec(id);
    const n = Number(match?.[2]);
    return match?.[1] === String(start) && n <= newest ? n : undefined;
  }

  function tailOf(conversation: string): Tail {
    let tail = tails.get(conversation);
    if (tail === undefined) {
      tail = {
        entries: [],
        chars: 0,
        dropped: forgotten,
        last: forgotten,
        run: undefined,
        publishedAt: 0,
        readers: new Set(),
      };
      tails.set(conversation, tail);
    }
    return tail;
  }

  function drop(tail: Tail, count: number): void {
    for (const entry of tail.entries.splice(0, count)) {
      tail.chars -= entry.chars;
      chars -= entry.chars;
      tail.dropped = entry.n;
    }
  }

  /** Drops a tail's events, and the tail itself if nobody reads it. */
  function forget(conversation: string, tail: Tail): void {
    drop(tail, tail.entries.length);
    if (tail.readers.size > 0) return;
    forgotten = Math.max(forgotten, tail.last);
    tails.delete(conversation);
  }

  function sweep(): void {
    const before = Date.now() - idleMs;
    let kept = 0;
    for (const [conversation, tail] of tails) {
      if (tail.publishedAt <= before) forget(conversation, tail);
      else kept += 1;
    }
    if (kept > 0) return;
    clearInterval(sweeper);
    sweeper = undefined;
  }

  function shrink(): void {
    for (const [conversation, tail] of tails) {
      if (chars <= maxChars) return;
      forget(conversation, tail);
    }
  }

  return {
    async publish(conversation, events) {
      if (events.length === 0 || closed) return;
      const tail = tailOf(conversation);
      for (const event of events) {
        if (event.type === 'agent_start') tail.run = newest;
        newest += 1;
        const entry = { n: newest, event, chars: charsOf(event) };
        tail.entries.push(entry);
        tail.chars += entry.chars;
        chars += entry.chars;
      }
      tail.last = newest;
      tail.publishedAt = Date.now();
      tails.delete(conversation);
      tails.set(conversation, tail);
      if (tail.entries.length > 2 * maxEvents) drop(tail, tail.entries.length - maxEvents);
      if (chars > maxChars) shrink();
      sweeper ??= setInterval(sweep, idleMs / 2).unref();
      for (const { wake } of tail.readers) wake();
    },

    async subscribe(conversation, { after, signal }) {
      const tail = tailOf(conversation);
      /** The last event that was delivered; undefined: nobody knows. */
      let cursor = after === undefined ? newest : numberOf(after);
      let wake: (() => void) | undefined;
      const reader: Reader = {
        ended: closed || signal.aborted,
        wake: () => wake?.(),
        end() {
          if (reader.ended) return;
          reader.ended = true;
          signal.removeEventListener('abort', reader.end);
          tail.readers.delete(reader);
          if (tail.readers.size === 0 && tail.entries.length === 0) forget(conversation, tail);
          wake?.();
        },
      };
      if (!reader.ended) {
        tail.readers.add(reader);
        signal.addEventListener('abort', reader.end, { once: true });
      }

      async function next(): Promise<IteratorResult<LoggedEvent>> {
        while (!reader.ended) {
          if (cursor === undefined || cursor < tail.dropped) {
            cursor = newest;
            return { done: false, value: { id: idOf(cursor), resync: true } };
          }
          const entry = tail.entries[firstAfter(tail.entries, cursor)];
          if (entry !== undefined) {
            cursor = entry.n;
            return { done: false, value: { id: idOf(entry.n), event: entry.event } };
          }
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
        return { done: true, value: undefined };
      }

      const subscription: EventSubscription = {
        [Symbol.asyncIterator]: () => ({
          next,
          // Called where a `for await` loop is left.
          async return() {
            reader.end();
            return { done: true, value: undefined };
          },
        }),
        async close() {
          reader.end();
        },
      };
      return subscription;
    },

    async position(conversation) {
      const tail = tails.get(conversation);
      const run = tail?.run === undefined ? newest : Math.max(tail.run, tail.dropped);
      return { run: idOf(run), end: idOf(newest) };
    },

    close() {
      if (closed) return;
      closed = true;
      clearInterval(sweeper);
      for (const tail of tails.values()) for (const { end } of tail.readers) end();
      tails.clear();
    },
  };
}
