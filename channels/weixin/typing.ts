// "Typing…" in WeChat while a run is at work: the platform forgets it after a few seconds, so that it is said again and again.
import type { LiveView } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { Login, WeixinApi } from './client/api.ts';
import type { People } from './people.ts';

export interface TypingOptions {
  api: Pick<WeixinApi, 'typingTicket' | 'typing'>;
  people: Pick<People, 'context' | 'ticket' | 'forgetTicket'>;
  login: () => Promise<Login | undefined>;
  clock: Clock;
  log: Logger;
  /** The channel stops. */
  signal: AbortSignal;
}

export interface Typing {
  view: LiveView;
  /** Resolves when nothing is shown any more. */
  close(): Promise<void>;
}

const AGAIN_MS = 5_000;
/** Nothing but the beginning and the end is shown. */
const NO_UPDATES_MS = 60_000;

export function createTyping({ api, people, login: current, clock, log, signal }: TypingOptions): Typing {
  const shown = new Map<string, { stop: AbortController; done: Promise<void> }>();

  async function show(user: string, ends: AbortSignal): Promise<void> {
    const login = await current();
    if (!login) return;
    const ticket = await people.ticket(login.botId, user, async () =>
      api.typingTicket(login, user, await people.context(login.botId, user), signal),
    );
    if (ticket === undefined) return;
    // It may be over by now.
    if (ends.aborted) return;
    try {
      while (!ends.aborted) {
        await api.typing(login, user, ticket, true, signal);
        await clock.sleep(AGAIN_MS, ends).catch(() => undefined);
      }
      await api.typing(login, user, ticket, false, signal);
    } catch (error) {
      // It may have been the ticket.
      await people.forgetTicket(user);
      throw error;
    }
  }

  async function end(run: string): Promise<void> {
    const entry = shown.get(run);
    shown.delete(run);
    entry?.stop.abort();
    await entry?.done;
  }

  return {
    view: {
      intervalMs: NO_UPDATES_MS,
      async started({ id, address }) {
        const { user } = address;
        if (typeof user !== 'string' || signal.aborted || shown.has(id)) return;
        const stop = new AbortController();
        const done = show(user, stop.signal).catch((error: unknown) => {
          if (!signal.aborted) log.debug({ error }, 'typing could not be shown');
        });
        shown.set(id, { stop, done });
      },
      async update() {},
      ended: ({ id }) => end(id),
    },
    async close() {
      await Promise.all([...shown.keys()].map((run) => end(run)));
    },
  };
}
