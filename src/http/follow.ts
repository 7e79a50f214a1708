// Following one message from its append to its answer: what `Prefer: wait`, the event stream and the OpenAI API share.
// Events tell when to look, the stored status is what counts: events are best effort, so the status is also read now
// and then without one.
import { addAbortListener } from 'node:events';
import type { RunEvent } from '../domain/events.ts';
import type { EventSubscription, LoggedEvent } from '../ports/events.ts';
import type { Logger } from '../ports/log.ts';
import type { MessageStatus } from '../ports/reader.ts';
import type { Storage } from '../ports/storage.ts';

export type Answered = MessageStatus & { state: 'done' | 'failed' };

export type Followed =
  /** An event of the run that takes the message. */
  | { id: string; event: RunEvent }
  /** The last item. */
  | { answer: Answered };

export interface FollowOptions {
  storage: Pick<Storage, 'events' | 'reader'>;
  message: { id: string; conversation: string };
  /** Go on after this event; absent: from now on. */
  after?: string | undefined;
  signal: AbortSignal;
  log: Logger;
  /** How often the status is read without an event. */
  pollMs?: number;
}

export interface Follower extends AsyncDisposable {
  /**
   * Ends with the answer, or without one when the signal aborts. `known`: the message was there before this request, so
   * it may be answered already. Call once.
   */
  items(known: boolean): AsyncGenerator<Followed, undefined, undefined>;
}

const POLL_MS = 3_000;
/** A client that resumes after the answer gets the events it missed first, as long as they come at this pace. */
const REPLAY_GAP_MS = 250;

/** Resolves when attached (dispose of it, or read it to its end): append the message after that, and no event of its run is missed. */
export async function follow(options: FollowOptions): Promise<Follower> {
  const { storage, message, after, log, pollMs = POLL_MS } = options;
  const { id: messageId, conversation } = message;
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const subscription = await storage.events.subscribe(conversation, {
    signal,
    ...(after === undefined ? {} : { after }),
  });

  /** Undefined when it can't be told now: the message is durable, so the next look will tell. */
  async function look(): Promise<MessageStatus | undefined> {
    try {
      return await storage.reader.status(conversation, messageId);
    } catch (error) {
      log.warn({ error, conversation }, 'message status could not be read; it is read again');
      return undefined;
    }
  }

  /** Idempotent. */
  async function detach(): Promise<void> {
    // With a reason: without one, an error with a stack is made each time.
    over.abort('detached');
    await subscription.close();
  }

  async function* items(known: boolean): AsyncGenerator<Followed, undefined, undefined> {
    try {
      const first = known ? await look() : undefined;
      const resuming = after !== undefined && isAnswered(first);
      if (isAnswered(first) && !resuming) {
        yield { answer: first };
        return;
      }
      let run = first?.run;
      for await (const step of steps(subscription, resuming ? REPLAY_GAP_MS : pollMs, signal)) {
        if (step !== 'tick' && 'event' in step) {
          const { event } = step;
          if (takes(event, messageId)) run = event.run;
          if (event.run === run) yield step;
          if (!mayBeAnswered(event, run)) continue;
        }
        const status = await look();
        run = status?.run ?? run;
        if (isAnswered(status)) {
          yield { answer: status };
          return;
        }
      }
    } finally {
      await detach();
    }
  }

  return { items, [Symbol.asyncDispose]: detach };
}

const isAnswered = (status: MessageStatus | undefined): status is Answered =>
  status?.state === 'done' || status?.state === 'failed';

const takes = (event: RunEvent, messageId: string): boolean =>
  (event.type === 'agent_start' || event.type === 'steered') && event.messages.includes(messageId);

/** `run`: the one that takes the message, as far as is known. */
function mayBeAnswered({ type, run: other }: RunEvent, run: string | undefined): boolean {
  // Before its own run is known, any end may be that of its run, the start having been lost; and after that, another
  // run's start tells that its run is over, since there is one at a time.
  if (type === 'agent_end') return run === undefined || other === run;
  return type === 'agent_start' && run !== undefined && other !== run;
}

/** The subscription's events, and a tick whenever none has come for tickMs; ticks only, once the subscription has ended. */
async function* steps(
  subscription: EventSubscription,
  tickMs: number,
  signal: AbortSignal,
): AsyncGenerator<LoggedEvent | 'tick', undefined, undefined> {
  const reader = subscription[Symbol.asyncIterator]();
  const read = (): Promise<IteratorResult<LoggedEvent, unknown>> =>
    // A subscription that fails is one that has ended: ticks go on.
    reader.next().catch(() => ({ done: true, value: undefined }));
  const never = new Promise<never>(() => {});
  const { promise: aborted, resolve: abort } = Promise.withResolvers<'aborted'>();
  using _listener = addAbortListener(signal, () => abort('aborted'));
  let next: ReturnType<typeof read> | undefined = read();
  for (;;) {
    const { promise: tick, resolve } = Promise.withResolvers<'tick'>();
    const timer = setTimeout(() => resolve('tick'), tickMs);
    const step = await Promise.race([aborted, next ?? never, tick]);
    clearTimeout(timer);
    if (step === 'aborted') return;
    if (step === 'tick') yield step;
    else if (step.done) next = undefined;
    else {
      next = read();
      yield step.value;
    }
  }
}
