// What the child hands over → what accept() takes. Pure: files are kept, and referred to, by inbound.ts.
import { z } from 'zod';
import type { Attachment } from '../../src/domain/inbound.ts';
import type { ChannelMessage } from '../../src/ports/channel.ts';
import type { Handed, Target } from './ipc.ts';

const addressSchema = z.object({
  chat: z.string().min(1),
  group: z.boolean(),
  /** Of the chat, to find it in a later login whose ids are other ones. */
  name: z.string(),
  alias: z.string().optional(),
  self: z.string(),
  /** Who is answered. */
  talker: z.object({ id: z.string(), name: z.string() }),
});

/** Where an answer goes; opaque to the rest of the server. */
export type Address = z.infer<typeof addressSchema>;

/** Undefined: not one of this channel's. */
export function readAddress(address: Record<string, unknown>): Address | undefined {
  const { success, data } = addressSchema.safeParse(address);
  return success ? data : undefined;
}

export function addressOf({ chat, group, self, sender }: Handed): Address {
  return {
    chat: chat.id,
    group,
    name: chat.name,
    ...(sender.alias === undefined ? {} : { alias: sender.alias }),
    self,
    talker: { id: sender.id, name: sender.name },
  };
}

export const targetOf = ({ talker: _talker, ...target }: Address): Target => target;

/** `notes`: what could not be kept, in words. */
export function toMessage(
  handed: Handed,
  attachments: Attachment[],
  notes: string[],
): ChannelMessage & { at: number } {
  const { id, at, chat, group, sender, mentioned, text } = handed;
  return {
    id,
    chat: chat.id,
    sender: { id: sender.id, ...(sender.name === '' ? {} : { name: sender.name }) },
    text: [text, ...handed.notes, ...notes].filter(Boolean).join('\n\n'),
    ...(attachments.length > 0 ? { attachments } : {}),
    group,
    mentioned,
    replyTo: { key: chat.id, address: addressOf(handed) },
    at,
  };
}
