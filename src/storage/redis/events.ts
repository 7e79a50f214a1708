// RunEventLog on Redis: a stream per conversation for those who come late, pub/sub for those who are there. A reader
// subscribes first, then reads what is kept, then goes on live; ids tell what it had already.
import type { RunEvent } from '../../domain/events.ts';
import type { EventSubscription, LoggedEvent, RunEventLog } from '../../ports/events.ts';
import type { Logger } from '../../ports/log.ts';
import { conversationKeys } from './keys.ts';
import type { RedisContext } from './operations.ts';
import { createReporter, reasonOf } from './reporter.ts';
import type { Subscriber } from './subscriber.ts';

export interface EventLogOptions {
  /** Events kept per conversation, about. */
  maxEvents: number;
  /** Kept this long after the newest one. */
  keepMs: number;
  log: Logger;
}

/** A reader that leaves this many events unread gets a resync instead. */
const MAX_UNREAD = 20_000;

/** How long after a failure what was missed is read again. */
const RETRY_MS = 500;

interface Entry {
  id: string;
  json: string;
}

/** What one publish() hands over. */
interface Batch {
  entries: Entry[];
  /** The id that came before them; a version that knew no gaps left it out. */
  before: string | undefined;
}

export function createEventLog(
  context: RedisContext,
  subscriber: Subscriber,
  { maxEvents, keepMs, log }: EventLogOptions,
): RunEventLog {
  const { operate, connections, channels } = context;
  const reporter = createReporter(
    log,
    {},
    'run events are not published while Redis is away; readers will resync',
  );

  async function read(conversation: string, after: string | undefined) {
    const { meta, events } = conversationKeys(conversation);
    const range = after === undefined ? '' : `(${after}`;
    const [floor, last, run, entries] = (await operate(
      'events-read',
      [meta, events],
      [range, keepMs],
    )) as ReadReply;
    return { floor, last, run, entries: entries.map(([id, [, json]]): Entry => ({ id, json })) };
  }

  return {
    async publish(conversation, events) {
      if (events.length === 0) return;
      const k = conversationKeys(conversation);
      const start = events.findLastIndex((event) => event.type === 'agent_start') + 1;
      try {
        // Best effort: a run does not wait for Redis to come back.
        if (!connections.ready()) throw new Error('not connected');
        const batch = events.map((event) => JSON.stringify(event));
        await operate(
          'events-publish',
          [k.meta, k.events],
          [channels.events(conversation), maxEvents, keepMs, start, ...batch],
        );
        reporter.recovered();
      } catch (error) {
        reporter.failed(error);
      }
    },

    async position(conversation) {
      const { floor, last, run } = await read(conversation, undefined);
      if (run === null) return { run: last, end: last };
      return { run: compareIds(run, floor) < 0 ? floor : run, end: last };
    },

    async subscribe(conversation, { after, signal }) {
      const follower = createFollower(after);
      const subscription = subscriber.listen(channels.events(conversation), {
        message(payload) {
          if (!follower.live(parsePayload(payload))) goBack();
        },
        // From here on, since messages may come right behind the answer to SUBSCRIBE, ahead of what was missed.
        detached: () => follower.detach(),
        attached: goBack,
      });
      let retry: NodeJS.Timeout | undefined;
      const stop = () => {
        signal.removeEventListener('abort', stop);
        clearTimeout(retry);
        subscription.stop();
        follower.end();
      };
      signal.addEventListener('abort', stop, { once: true });
      if (signal.aborted) stop();

      let catching: Promise<void> = Promise.resolve();
      function catchUp(): Promise<void> {
        const attachment = follower.attach();
        const next = catching.then(async () =>
          follower.caughtUp(await read(conversation, follower.position()), attachment),
        );
        // One after the other, also after one that failed; whoever asked for it handles the failure.
        catching = next.catch(() => undefined);
        return next;
      }
      /** What was missed is read; what comes meanwhile is held. */
      function goBack(): void {
        catchUp().catch((error: unknown) => {
          log.debug({ reason: reasonOf(error) }, 'catching up with run events failed; trying again');
          clearTimeout(retry);
          if (!follower.ended()) retry = setTimeout(goBack, RETRY_MS);
        });
      }

      try {
        await subscription.ready;
        await catchUp();
      } catch (error) {
        stop();
        throw error;
      }
      return {
        [Symbol.asyncIterator]: () => follower.iterate(stop),
        close: () => Promise.resolve(stop()),
      } satisfies EventSubscription;
    },
  };
}

/** One subscriber's place in the stream: what it had, what waits for it, and what came while it was catching up. */
function createFollower(after: string | undefined) {
  const unread: LoggedEvent[] = [];
  /** The id up to which everything was handed over. */
  let position = after;
  let held: Entry[] | undefined = [];
  let attachments = 0;
  let current: number | undefined;
  let ended = false;
  let wake: (() => void) | undefined;

  function push(event: LoggedEvent): void {
    position = event.id;
    if (unread.length >= MAX_UNREAD) {
      unread.length = 0;
      unread.push({ id: event.id, resync: true });
    } else unread.push(event);
    wake?.();
  }

  function deliver(entries: Entry[]): void {
    for (const { id, json } of entries) {
      if (position !== undefined && compareIds(id, position) <= 0) continue;
      push({ id, event: JSON.parse(json) as RunEvent });
    }
  }

  return {
    /** Where to read on, as far as it is an id at all: it came from outside. */
    position: () => (position !== undefined && ID.test(position) ? position : undefined),
    /** The channel is subscribed to: what comes is held until caughtUp() is told what came before. */
    attach(): number {
      held ??= [];
      attachments += 1;
      current = attachments;
      return current;
    },
    detach() {
      held ??= [];
      current = undefined;
    },
    /** False: a batch was lost on its way here, as happens between the nodes of a cluster; everything has to be read anew. */
    live({ entries, before }: Batch): boolean {
      if (held) held.push(...entries);
      else if (before !== undefined && position !== undefined && compareIds(before, position) > 0)
        return false;
      else deliver(entries);
      return true;
    },
    caughtUp(
      { floor, last, entries }: { floor: string; last: string; entries: Entry[] },
      attachment: number,
    ) {
      if (position === undefined) position = last;
      else if (!ID.test(position) || compareIds(position, floor) < 0 || compareIds(position, last) > 0) {
        push({ id: last, resync: true });
      } else deliver(entries);
      // The connection broke meanwhile: the next attachment's reading ends the holding back.
      if (attachment !== current) return;
      const waiting = held ?? [];
      held = undefined;
      deliver(waiting);
    },
    ended: () => ended,
    end() {
      ended = true;
      wake?.();
    },
    async *iterate(stop: () => void): AsyncGenerator<LoggedEvent, void, undefined> {
      try {
        for (;;) {
          if (ended) return;
          const next = unread.shift();
          if (next) yield next;
          else await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        stop();
      }
    },
  };
}

type ReadReply = [
  floor: string,
  last: string,
  run: string | null,
  entries: [id: string, fields: [string, string]][],
];

const ID = /^\d{1,15}-\d{1,15}$/;

/** Stream ids are `<ms>-<sequence>`. */
function compareIds(a: string, b: string): number {
  const [aMs = 0, aSequence = 0] = a.split('-').map(Number);
  const [bMs = 0, bSequence = 0] = b.split('-').map(Number);
  return aMs - bMs || aSequence - bSequence;
}

function parsePayload(payload: string): Batch {
  const lines = payload.split('\n');
  const entries: Entry[] = [];
  for (let i = 0; i + 1 < lines.length; i += 2) entries.push({ id: lines[i]!, json: lines[i + 1]! });
  return { entries, before: lines.length % 2 === 1 ? lines.at(-1) : undefined };
}
