// A platform message → what accept() takes, and the files it names. Pure.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { MAX_CHAT_CHARS } from '../../src/domain/conversation.ts';
import type { Attachment } from '../../src/domain/inbound.ts';
import type { ChannelMessage } from '../../src/ports/channel.ts';
import type { CdnFile } from './client/api.ts';
import { readHexKey, readKey } from './client/crypto.ts';

/** A file of the message, not fetched yet. */
export interface Resource {
  type: Attachment['type'];
  file: CdnFile;
  name?: string;
  mediaType?: string;
}

export type Parsed =
  | { ignored: string }
  | {
      message: ChannelMessage;
      user: string;
      /** Goes with what is said to this person from now on. */
      context?: string;
      resources: Resource[];
    };

const name = z.string().nullish();
const mediaSchema = z.object({ encrypt_query_param: name, aes_key: name, full_url: name }).nullish();
const itemSchema = z.object({
  type: z.number().nullish(),
  text_item: z.object({ text: name }).nullish(),
  image_item: z.object({ media: mediaSchema, aeskey: name }).nullish(),
  voice_item: z.object({ media: mediaSchema, text: name, encode_type: z.number().nullish() }).nullish(),
  file_item: z.object({ media: mediaSchema, file_name: name }).nullish(),
  video_item: z.object({ media: mediaSchema }).nullish(),
  /** One that can't be read is left out. */
  ref_msg: z.object({ title: name, message_item: z.unknown().optional() }).nullish().catch(undefined),
});
type Ref = NonNullable<z.infer<typeof itemSchema>['ref_msg']>;
const messageSchema = z.object({
  message_id: z.union([z.string().min(1), z.number()]).nullish(),
  from_user_id: z.string().min(1).max(MAX_CHAT_CHARS),
  message_type: z.number().nullish(),
  create_time_ms: z.number().nonnegative().nullish(),
  context_token: name,
  group_id: name,
  item_list: z.array(z.unknown()).nullish(),
});

const BOT = 2;
const UNREADABLE = '(a message that could not be read)';
const MAX_QUOTE_CHARS = 2_000;
const VOICES: Record<number, string> = { 5: 'audio/amr', 6: 'audio/silk', 7: 'audio/mpeg', 8: 'audio/ogg' };

/** Throws ZodError if nobody can have sent it. `botId`: whose messages are the bot's own. */
export function parseMessage(raw: unknown, botId: string, now: number): Parsed {
  const message = messageSchema.parse(raw);
  const user = message.from_user_id;
  if (message.message_type === BOT || user === botId) return { ignored: 'not from a person' };
  if (message.group_id) return { ignored: 'from a group, which this platform does not let a bot answer in' };
  const words: string[] = [];
  const quotes: string[] = [];
  const resources: Resource[] = [];
  const quoted: Resource[] = [];
  for (const one of message.item_list ?? []) {
    const { text, resource, ref } = readItem(one);
    if (text !== '') words.push(text);
    if (resource) resources.push(resource);
    const quote = ref && quoteOf(ref);
    if (quote && quote.text !== '') quotes.push(quote.text);
    if (quote?.resource) quoted.push(quote.resource);
  }
  const text = words.join('\n').toWellFormed();
  return {
    user,
    // What somebody asks about is often the picture that they quote.
    resources: resources.length > 0 ? resources : quoted,
    ...(message.context_token ? { context: message.context_token } : {}),
    message: {
      id: idOf(message.message_id, raw),
      chat: user,
      sender: { id: user },
      text: text === '' && resources.length + quoted.length + quotes.length === 0 ? UNREADABLE : text,
      ...(quotes.length > 0 ? { quote: quotes.join('\n\n').toWellFormed() } : {}),
      group: false,
      mentioned: true,
      replyTo: { key: user, address: { user } },
      at: message.create_time_ms || now,
    },
  };
}

/** uint64, as text. A message without one is known by what it says. */
const idOf = (id: string | number | null | undefined, raw: unknown): string =>
  id == null ? createHash('sha256').update(JSON.stringify(raw)).digest('hex') : String(id);

interface Read {
  text: string;
  resource?: Resource;
  /** What it quotes. */
  ref?: Ref;
}

function readItem(raw: unknown): Read {
  const { data: item } = itemSchema.safeParse(raw);
  if (!item) return { text: UNREADABLE };
  const said = (text: string): Read => ({
    text: text.trim(),
    ...(item.ref_msg ? { ref: item.ref_msg } : {}),
  });
  switch (item.type) {
    case 1:
      return said(item.text_item?.text ?? '');
    case 2: {
      const { media, aeskey } = item.image_item ?? {};
      return { ...said(''), ...resourceOf('image', media, aeskey) };
    }
    case 3: {
      const { media, text, encode_type } = item.voice_item ?? {};
      const mediaType = VOICES[encode_type ?? 6] ?? 'application/octet-stream';
      // The transcript is what was said; the sound goes with it.
      return { ...said(text ?? ''), ...resourceOf('audio', media, undefined, { mediaType }) };
    }
    case 4: {
      const { media, file_name } = item.file_item ?? {};
      return { ...said(''), ...resourceOf('file', media, undefined, file_name ? { name: file_name } : {}) };
    }
    case 5: {
      const { media } = item.video_item ?? {};
      return { ...said(''), ...resourceOf('video', media, undefined, { mediaType: 'video/mp4' }) };
    }
    default:
      return said(UNREADABLE);
  }
}

function resourceOf(
  type: Resource['type'],
  media: z.infer<typeof mediaSchema>,
  hexKey?: string | null,
  more: Pick<Resource, 'name' | 'mediaType'> = {},
): { resource: Resource } | undefined {
  if (!media?.full_url && !media?.encrypt_query_param) return undefined;
  const key =
    (hexKey ? readHexKey(hexKey) : undefined) ?? (media.aes_key ? readKey(media.aes_key) : undefined);
  return {
    resource: {
      type,
      file: { url: media.full_url ?? undefined, param: media.encrypt_query_param ?? undefined, key },
      ...more,
    },
  };
}

/** What was quoted, as lines that begin with `>`; what that one quotes is left out. */
function quoteOf({ title, message_item }: Ref): Read {
  const { text, resource } = message_item === undefined ? { text: '' } : readItem(message_item);
  const words = text === '' || text === UNREADABLE ? (title ?? '') : text;
  const lines = words.slice(0, MAX_QUOTE_CHARS).split('\n');
  return {
    text: words === '' ? '' : lines.map((line) => `> ${line}`.trimEnd()).join('\n'),
    ...(resource ? { resource } : {}),
  };
}
