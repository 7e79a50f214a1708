// The content of a platform message, by its type → plain text, who is mentioned in it, and what is attached to it.
// Message types: https://open.feishu.cn/document/server-docs/im-v1/message-content-description/message_content
import { z } from 'zod';

export interface Mention {
  /** Stands for the mention in the text: `@_user_1`. */
  key: string;
  name: string;
  openId: string;
}

/** A file of the message, not fetched yet. */
export interface Resource {
  type: 'image' | 'file' | 'audio' | 'video';
  key: string;
  name?: string;
}

export interface Content {
  text: string;
  resources: Resource[];
  mentionsAll: boolean;
}

const textSchema = z.object({ text: z.string() });
const elementSchema = z.looseObject({ tag: z.string() });
const postSchema = z.object({
  title: z.string().default(''),
  content: z.array(z.array(elementSchema)),
});
const cardSchema = z.object({
  title: z
    .string()
    .nullish()
    .transform((title) => title ?? ''),
  elements: z.array(z.array(elementSchema)),
});
const imageSchema = z.object({ image_key: z.string() });
const fileSchema = z.object({ file_key: z.string(), file_name: z.string().optional() });

const ALL = '@_all';
const TEXT_ONLY: Record<string, string> = {
  sticker: '(a sticker)',
  share_chat: '(a shared chat)',
  share_user: '(a shared contact)',
  location: '(a location)',
  merge_forward: '(forwarded messages)',
  interactive: '(a card)',
};

/** Never throws: what can't be read is named. `botOpenId`: its mention is left out of the text. */
export function readContent(type: string, json: string, mentions: Mention[], botOpenId: string): Content {
  const body = parse(json);
  const empty: Content = { text: '', resources: [], mentionsAll: false };
  switch (type) {
    case 'text': {
      const { data } = textSchema.safeParse(body);
      if (!data) break;
      const mentionsAll = data.text.includes(ALL);
      return { ...empty, text: withNames(data.text, mentions, botOpenId).trim(), mentionsAll };
    }
    case 'interactive': {
      // A card comes back as its texts, in the lines of a post.
      const { data } = cardSchema.safeParse(body);
      const card = data && readPost({ title: data.title, content: data.elements }, mentions, botOpenId);
      if (card && card.text !== '') return card;
      break;
    }
    case 'post':
      return readPost(body, mentions, botOpenId) ?? { ...empty, text: '(a message that could not be read)' };
    case 'image': {
      const { data } = imageSchema.safeParse(body);
      if (data) return { ...empty, resources: [{ type: 'image', key: data.image_key }] };
      break;
    }
    case 'file':
    case 'audio':
    case 'media': {
      const { data } = fileSchema.safeParse(body);
      if (!data) break;
      const kind = type === 'media' ? 'video' : type;
      const name = data.file_name === undefined ? {} : { name: data.file_name };
      return { ...empty, resources: [{ type: kind, key: data.file_key, ...name }] };
    }
  }
  return { ...empty, text: TEXT_ONLY[type] ?? '(a message that could not be read)' };
}

function readPost(body: unknown, mentions: Mention[], botOpenId: string): Content | undefined {
  const { data } = postSchema.safeParse(unwrapLocale(body));
  if (!data) return undefined;
  const resources: Resource[] = [];
  let mentionsAll = false;
  const inline = (element: Record<string, unknown>): string => {
    const text = stringOf(element['text']);
    switch (element['tag']) {
      case 'a':
        return `[${text}](${stringOf(element['href'])})`;
      case 'at': {
        const id = stringOf(element['user_id']);
        if (id === ALL || id === 'all') mentionsAll = true;
        return nameOf(id, stringOf(element['user_name']), mentions, botOpenId);
      }
      case 'img':
        resources.push({ type: 'image', key: stringOf(element['image_key']) });
        return '';
      case 'media':
        resources.push({ type: 'video', key: stringOf(element['file_key']) });
        return '';
      case 'emotion':
        return `[${stringOf(element['emoji_type'])}]`;
      case 'code_block':
        return `\n\`\`\`${stringOf(element['language']).toLowerCase()}\n${text}\n\`\`\`\n`;
      case 'hr':
        return '\n---\n';
      default:
        return withNames(text, mentions, botOpenId);
    }
  };
  const lines = data.content.map((line) => line.map(inline).join(''));
  const text = [data.title, ...lines]
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim();
  return { text, resources: resources.filter(({ key }) => key !== ''), mentionsAll };
}

/** Posts that were sent through the API come back under their language. */
function unwrapLocale(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || 'content' in body) return body;
  return Object.values(body)[0];
}

/** Replaces every key by `@name`; the bot's own is taken out. */
function withNames(text: string, mentions: Mention[], botOpenId: string): string {
  // Whole keys: @_user_1 is also the beginning of @_user_10.
  return text.replaceAll(
    /(\s?)(@_(?:user_\d+|all))(?!\d)([ \t]?)/g,
    (_found, before: string, key: string, after: string) => {
      const name = nameOf(key, '', mentions, botOpenId);
      if (name !== '') return `${before}${name}${after}`;
      return before === '\n' || (before && after) ? before : '';
    },
  );
}

function nameOf(key: string, given: string, mentions: Mention[], botOpenId: string): string {
  if (key === ALL || key === 'all') return '@all';
  const mention = mentions.find((one) => one.key === key || one.openId === key);
  if (mention?.openId === botOpenId || key === botOpenId) return '';
  const name = mention?.name || given;
  return name === '' ? key : `@${name}`;
}

const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    // Named as unreadable by the caller.
    return undefined;
  }
}
