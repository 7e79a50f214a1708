// Streamed replies: follows the events of conversations whose messages this process took in, and lets their channel show the
// run while it works. Throttled, the newest state wins, one update at a time. The answer itself goes through the outbox;
// whether anything was shown before never decides whether it is sent.
import type { LoggedEvent, RunEventLog } from '../ports/events.ts';
import type { RunEvent } from '../domain/events.ts';
import type { Accept, Channel, LiveRun, LiveState, LiveView } from '../ports/channel.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { ConversationReader } from '../ports/reader.ts';

export interface DraftsOptions {
  events: RunEventLog;
  reader: ConversationReader;
  channels: () => ReadonlyMap<string, Channel>;
  clock: Clock;
  log: Logger;
  /** How often followers look for messages whose end they missed. */
  checkMs?: number;
}

export interface Drafts {
  /** The same accept; what it queues is followed if its channel can show runs. */
  watching(accept: Accept): Accept;
  /** Resolves when no follower is left. Idempotent. */
  close(): Promise<void>;
}

interface Follower {
  /** Messages whose run has not ended yet → where they are answered. */
  waiting: Map<string, Record<string, unknown>>;
  stop: AbortController;
  done: Promise<void>;
}

export function createDrafts(options: DraftsOptions): Drafts {
  const { events, reader, clock, log, checkMs = 60_000 } = options;
  const followers = new Map<string, Follower>();
  let check: NodeJS.Timeout | undefined;
  let closed = false;

  function follow(live: LiveView, conversation: string, id: string, address: Record<string, unknown>): void {
    const known = followers.get(conversation);
    if (known) {
      known.waiting.set(id, address);
      return;
    }
    const stop = new AbortController();
    const follower: Follower = { waiting: new Map([[id, address]]), stop, done: Promise.resolve() };
    followers.set(conversation, follower);
    check ??= setInterval(() => void forgetEnded(), checkMs);
    follower.done = watch(live, conversation, follower)
      .catch((error: unknown) => {
        if (!stop.signal.aborted)
          log.warn({ conversation, error }, 'a run cannot be shown while it works; its answer will be sent');
      })
      .finally(() => {
        if (followers.get(conversation) === follower) followers.delete(conversation);
        if (followers.size > 0) return;
        clearInterval(check);
        check = undefined;
      });
  }

  async function watch(live: LiveView, conversation: string, follower: Follower): Promise<void> {
    const { waiting, stop } = follower;
    const { run: after } = await events.position(conversation);
    const subscription = await events.subscribe(conversation, { after, signal: stop.signal });
    const show = createShow(live, clock, log);
    /** Messages that the current run answers. */
    let taken: string[] = [];
    try {
      for await (const item of subscription as AsyncIterable<LoggedEvent>) {
        if ('resync' in item) continue;
        const { event } = item;
        if (event.type === 'agent_start') {
          taken = [...event.messages];
          const address = waiting.get(taken[0] ?? '');
          if (address) {
            const { conversation: name, run } = event;
            await show.start({
              id: run,
              conversation: name,
              delivery: `${run}.0`,
              messages: taken.slice(),
              address,
            });
          } else await show.end();
        } else if (event.type === 'steered') taken.push(...event.messages);
        else if (event.type !== 'agent_end') show.take(event);
        else {
          await show.end();
          for (const id of taken) waiting.delete(id);
          if (waiting.size > 0) continue;
          // At once: a message that comes while this one is being left needs a follower of its own.
          followers.delete(conversation);
          return;
        }
      }
    } finally {
      if (followers.get(conversation) === follower) followers.delete(conversation);
      await show.end();
      await subscription.close();
    }
  }

  async function forgetEnded(): Promise<void> {
    for (const [conversation, { waiting, stop }] of followers) {
      for (const id of waiting.keys()) {
        const status = await reader.status(conversation, id).catch(() => ({ state: 'queued' as const }));
        if (status === undefined || status.state === 'done' || status.state === 'failed') waiting.delete(id);
      }
      if (waiting.size === 0) stop.abort();
    }
  }

  return {
    watching: (accept) => async (account, message) => {
      const accepted = await accept(account, message);
      const live = options.channels().get(account)?.live;
      if (!live || closed || !message.replyTo) return accepted;
      const { address } = message.replyTo;
      if (accepted.status === 'queued') follow(live, accepted.conversation, accepted.id, address);
      if (accepted.status === 'duplicate') {
        // Delivered once more by the platform: its run may have died with the process that showed it.
        const { conversation, id } = accepted;
        const status = await reader.status(conversation, id).catch(() => undefined);
        if (status?.state === 'queued' || status?.state === 'running')
          follow(live, conversation, id, address);
      }
      return accepted;
    },
    async close() {
      closed = true;
      clearInterval(check);
      check = undefined;
      const all = [...followers.values()];
      for (const { stop } of all) stop.abort();
      await Promise.all(all.map(({ done }) => done));
    },
  };
}

interface Show {
  /** Shows this run; the same run may start again after its worker died. */
  start(run: LiveRun): Promise<void>;
  take(event: RunEvent): void;
  /** Resolves when nothing is shown any more. Never rejects. */
  end(): Promise<void>;
}

/** One run at a time on one channel. */
function createShow(live: LiveView, clock: Clock, log: Logger): Show {
  let run: LiveRun | undefined;
  let state: LiveState = { text: '' };
  /** Running calls, in the order of their start: id → what people are told of it. */
  const calls = new Map<string, string>();
  /** The next words belong to a new message. */
  let fresh = true;
  let dirty = false;
  let pumping: Promise<void> = Promise.resolve();
  let idle = true;
  let stop = new AbortController();

  const report = (error: unknown): void =>
    log.warn({ run: run?.id, error }, 'a run could not be shown while it works; its answer will be sent');

  async function pump(shown: LiveRun, signal: AbortSignal): Promise<void> {
    while (dirty && !signal.aborted) {
      dirty = false;
      await live.update(shown, state).catch(report);
      await clock.sleep(live.intervalMs, signal).catch(() => undefined);
    }
    idle = true;
  }

  function touch(next: LiveState): void {
    state = next;
    dirty = true;
    if (!run || !idle) return;
    idle = false;
    const shown = run;
    pumping = pumping.then(() => pump(shown, stop.signal));
  }

  /** The newest call that is still running is shown. */
  function touchTool(): void {
    const tool = [...calls.values()].at(-1);
    touch({ text: state.text, ...(tool === undefined ? {} : { tool }) });
  }

  async function end(): Promise<void> {
    const ended = run;
    if (!ended) return;
    run = undefined;
    stop.abort();
    await pumping;
    idle = true;
    dirty = false;
    await live.ended(ended).catch(report);
  }

  return {
    async start(started) {
      if (run && run.id !== started.id) await end();
      state = { text: '' };
      calls.clear();
      fresh = true;
      if (run) return;
      run = started;
      stop = new AbortController();
      pumping = pumping.then(() => live.started(started)).catch(report);
    },
    take(event) {
      if (!run || event.run !== run.id) return;
      switch (event.type) {
        case 'message_start':
        case 'message_reset':
          fresh = true;
          break;
        case 'message_update':
          touch({ text: fresh ? event.delta : state.text + event.delta });
          fresh = false;
          break;
        case 'tool_execution_start':
          calls.set(event.call.id, event.call.name);
          touchTool();
          break;
        case 'tool_execution_end':
          calls.delete(event.call_id);
          touchTool();
          break;
        default:
      }
    },
    end,
  };
}
