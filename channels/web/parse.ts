// What the chat page posts → ChannelMessage. The conversation's id is chosen by the browser and is what grants access to it:
// it must look like the 128 random bits that the page makes.
import { z } from 'zod';
import type { ChannelMessage } from '../../src/ports/channel.ts';

/** Longest message, in characters. */
const MAX_TEXT_CHARS = 100_000;

/** An id that the page made: 128 bits or more as base64url. */
const randomId = (what: string) =>
  z
    .string()
    .regex(/^[\w-]{22,64}$/, `${what} must be 22 to 64 letters, digits, "-" or "_", chosen at random`);

export const chatSchema = randomId('the conversation id');

export const messageBodySchema = z.strictObject({
  /** Made once per message: the same id again is the same message. */
  id: randomId('the message id'),
  text: z
    .string()
    .max(MAX_TEXT_CHARS)
    .refine((text) => text.trim() !== '', 'must not be empty'),
});

export function toChannelMessage(
  chat: string,
  { id, text }: z.output<typeof messageBodySchema>,
): ChannelMessage {
  return { id, chat, sender: { id: 'web' }, text: text.toWellFormed(), mentioned: true };
}
