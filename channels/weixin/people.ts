// What is known of the people who write: the token that goes with what is said to them, and the ticket for typing. Kept in the
// storage, since any process may answer; of another bot's login they are worth nothing.
import { z } from 'zod';
import type { ChannelState } from '../../src/ports/channel-state.ts';
import type { Context } from './client/api.ts';

export interface People {
  /** The newest context token of this person. */
  heard(bot: string, user: string, context: string): Promise<void>;
  context(bot: string, user: string): Promise<Context>;
  /** The ticket that is kept, or what `ask` gives, which is kept then. */
  ticket(bot: string, user: string, ask: () => Promise<string | undefined>): Promise<string | undefined>;
  forgetTicket(user: string): Promise<void>;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const MAX_REMEMBERED = 5_000;

const contextSchema = z.object({ bot: z.string(), context: z.string() });
const ticketSchema = z.object({ bot: z.string(), ticket: z.string(), at: z.number() });

export function createPeople(state: ChannelState, now: () => number): People {
  /** What was written last, so that the same is not written again. */
  const written = new Map<string, string>();

  return {
    async heard(bot, user, context) {
      const known = `${bot} ${context}`;
      if (written.get(user) === known) return;
      await state.set(`context:${user}`, { bot, context });
      if (written.size >= MAX_REMEMBERED) written.delete(written.keys().next().value ?? '');
      written.set(user, known);
    },
    async context(bot, user) {
      const { data } = contextSchema.safeParse(await state.get(`context:${user}`));
      return data?.bot === bot ? data.context : undefined;
    },
    async ticket(bot, user, ask) {
      const { data } = ticketSchema.safeParse(await state.get(`typing:${user}`));
      if (data?.bot === bot && now() - data.at < DAY_MS) return data.ticket;
      const ticket = await ask();
      if (ticket !== undefined) await state.set(`typing:${user}`, { bot, ticket, at: now() });
      return ticket;
    },
    forgetTicket: (user) => state.delete(`typing:${user}`),
  };
}
