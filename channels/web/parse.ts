// What the chat page posts → ChannelMessage. The conversation's id is chosen by the browser and is what grants access to it:
// it must look like the 128 random bits that the page makes.
import { z } from 'zod';
import type { ChannelMessage } from '../../src/ports/channel.ts';

/** Longest message, in characters. */
const MAX_TEXT_CHARS = 100_000;
const MAX_FILES = 10;

/** An id that the page made: 128 bits or more as base64url. */
const randomId = (what: string) =>
  z
    .string()
    .regex(/^[\w-]{22,64}$/, `${what} must be 22 to 64 letters, digits, "-" or "_", chosen at random`);

export const chatSchema = randomId('the conversation id');

/** A file that was left at POST /web/<account>/media, as that answered. */
const fileSchema = z.strictObject({
  ref: z.string().regex(/^media:[0-9a-f]{64}\.[a-z0-9]{1,12}$/),
  media_type: z.string().max(128),
  size: z.number().int().nonnegative(),
  name: z.string().max(256).optional(),
});

const PICTURE = /^image\/(?:png|jpeg|gif|webp)$/;

export const messageBodySchema = z
  .strictObject({
    /** Made once per message: the same id again is the same message. */
    id: randomId('the message id'),
    text: z.string().max(MAX_TEXT_CHARS),
    files: z.array(fileSchema).max(MAX_FILES).optional(),
  })
  .refine(({ text, files = [] }) => text.trim() !== '' || files.length > 0, {
    path: ['text'],
    message: 'must not be empty unless there are files',
  });

export function toChannelMessage(
  chat: string,
  { id, text, files = [] }: z.output<typeof messageBodySchema>,
): ChannelMessage {
  const attachments = files.map(({ name, ...file }) => ({
    type: PICTURE.test(file.media_type) ? ('image' as const) : ('file' as const),
    ...file,
    ...(name === undefined ? {} : { name }),
  }));
  return {
    id,
    chat,
    sender: { id: 'web' },
    text: text.toWellFormed(),
    mentioned: true,
    ...(attachments.length > 0 ? { attachments } : {}),
  };
}
