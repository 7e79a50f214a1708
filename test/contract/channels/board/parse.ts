// What the board tells → ChannelMessage. Pure; throws nothing.
import { z } from 'zod';
import type { ChannelMessage } from '../../../../src/ports/channel.ts';

const updateSchema = z.object({
  id: z.string().min(1),
  room: z.string().min(1),
  private: z.boolean(),
  from: z.object({ id: z.string().min(1), name: z.string().optional(), self: z.boolean().default(false) }),
  text: z.string(),
  mentions_me: z.boolean().default(false),
});

/** Undefined: not a message, or the bot's own. */
export function parseUpdate(update: unknown): ChannelMessage | undefined {
  const { data } = updateSchema.safeParse(update);
  if (!data || data.from.self) return undefined;
  const { id, room, from, text } = data;
  return {
    id,
    chat: room,
    sender: { id: from.id, ...(from.name === undefined ? {} : { name: from.name }) },
    text,
    group: !data.private,
    mentioned: data.private || data.mentions_me,
    // Messages of one run with the same key share one answer; the address comes back with it, as it is.
    replyTo: { key: room, address: { room } },
  };
}
