// Webhook body → ChannelMessage. The shape is the public interface: adding to it is fine, renaming is not.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { MAX_CHAT_CHARS } from '../../src/domain/conversation.ts';
import type { ChannelMessage } from '../../src/ports/channel.ts';

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** A platform's or program's own id: any characters but control characters and halves of surrogate pairs. */
const foreignId = (maxChars: number) =>
  z.string().superRefine((value, context) => {
    const message =
      value.trim() === ''
        ? 'must not be empty'
        : CONTROL.test(value) || !value.isWellFormed()
          ? 'must not hold control characters'
          : Array.from(value).length > maxChars
            ? `must not be longer than ${maxChars} characters`
            : undefined;
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });

const httpUrl = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).max(4096);

const attachmentSchema = z
  .object({
    type: z.enum(['image', 'file', 'audio', 'video']).default('file'),
    url: httpUrl.optional().describe('Where it can be fetched; it is passed on by reference.'),
    ref: z
      .string()
      .regex(/^media:[0-9a-f]{64}\.[a-z0-9]{1,12}$/, 'must be a ref that POST /webhook/<account>/media gave')
      .optional()
      .describe('Of a file that was left at POST /webhook/<account>/media, instead of url.'),
    name: z.string().max(256).optional(),
    media_type: z.string().max(128).optional(),
    size: z.number().int().nonnegative().optional(),
  })
  .refine(({ url, ref }) => (url === undefined) !== (ref === undefined), {
    message: 'give either url or ref',
  });

/** A chat id as a caller may give it; also in paths. */
export const chatSchema = foreignId(MAX_CHAT_CHARS).describe(
  'Your own id of the conversation, or the full id `<account>:<id>` that answers carry.',
);

export const webhookBodySchema = z
  .object({
    conversation: chatSchema,
    text: z.string(),
    sender: z
      .object({
        id: foreignId(256),
        name: z.string().max(256).optional(),
        bot: z.boolean().optional().describe('A program wrote it, not a person.'),
      })
      .optional()
      .describe('Who said it; matters in groups.'),
    group: z.boolean().optional().describe('The conversation has several people.'),
    mentioned: z
      .boolean()
      .optional()
      .describe('In a group: the bot was addressed. Messages that do not address it are not answered.'),
    attachments: z.array(attachmentSchema).max(20).optional(),
    callback_url: httpUrl.optional().describe('The answer is posted there, signed.'),
  })
  .refine((body) => body.text.trim() !== '' || (body.attachments?.length ?? 0) > 0, {
    path: ['text'],
    message: 'must not be empty unless there are attachments',
  });

export type WebhookBody = z.output<typeof webhookBodySchema>;

/** The chat part of what a caller gave: full ids come back in answers, so they are understood wherever a chat id is. */
export function chatFrom(account: string, given: string): string {
  const prefix = `${account}:`;
  return given.startsWith(prefix) && given.length > prefix.length ? given.slice(prefix.length) : given;
}

export function toChannelMessage(account: string, id: string, body: WebhookBody): ChannelMessage {
  const { sender, group = false, callback_url } = body;
  const attachments = body.attachments?.map(({ url, ref = url, ...rest }) => ({ ...rest, ref: ref ?? '' }));
  return {
    id,
    chat: chatFrom(account, body.conversation),
    sender: sender ?? { id: 'webhook' },
    text: body.text.toWellFormed(),
    group,
    mentioned: group ? (body.mentioned ?? false) : true,
    ...(attachments?.length ? { attachments } : {}),
    // The same URL is called once for a run, whatever the number of messages that named it.
    ...(callback_url ? { replyTo: { key: callback_url, address: { callback_url, id } } } : {}),
  };
}

/** Tells whether an id that comes again brings the same message; independent of white space and the order of keys. */
export function fingerprint(message: ChannelMessage): string {
  const { chat, sender, text, group, mentioned, attachments, replyTo } = message;
  const parts = [chat, sender.id, sender.name, text, group, mentioned, replyTo?.key];
  const files = attachments?.map((file) => [file.type, file.ref, file.name, file.media_type]);
  return createHash('sha256')
    .update(JSON.stringify([parts, files]))
    .digest('base64url');
}
