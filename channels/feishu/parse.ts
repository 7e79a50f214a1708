// Event body → what accept() takes. Pure: what has to be asked from the platform (names, a quoted message) is added by
// inbound.ts. Events: https://open.feishu.cn/document/server-docs/im-v1/message/events/receive
import { z } from 'zod';
import type { ChannelMessage } from '../../src/ports/channel.ts';
import { readContent, type Mention, type Resource } from './content.ts';

const eventSchema = z.object({
  sender: z.object({
    // An app that writes has its app id here, or none of the ids.
    sender_id: z.object({ open_id: z.string().nullish(), app_id: z.string().nullish() }).nullish(),
    sender_type: z.string().default('user'),
  }),
  message: z.object({
    message_id: z.string().min(1),
    root_id: z.string().optional(),
    parent_id: z.string().optional(),
    thread_id: z.string().optional(),
    create_time: z.string().regex(/^\d+$/).optional(),
    chat_id: z.string().min(1),
    chat_type: z.string(),
    message_type: z.string(),
    content: z.string(),
    mentions: z
      .array(
        z.object({
          key: z.string(),
          name: z.string().default(''),
          id: z.object({ open_id: z.string().nullish() }).nullish(),
        }),
      )
      .nullish(),
  }),
});

const recallSchema = z.object({ message_id: z.string().min(1), chat_id: z.string().optional() });
const eventIdSchema = z.object({ event_id: z.string().min(1) });

export interface ParseSettings {
  botOpenId: string;
  appId: string;
  mentionAll: boolean;
}

/** Where an answer goes; opaque to the rest of the server. A type, since interfaces have no index signature. */
export type Address = {
  chat: string;
  /** The message that is answered. */
  message: string;
  group: boolean;
  thread: boolean;
  /** It is part of a chain of replies, so that its answer is, too. */
  chain?: boolean;
};

export type Parsed =
  | { ignored: string }
  | {
      message: ChannelMessage & { at: number };
      address: Address;
      resources: Resource[];
      /** Id of the quoted message. */
      quoted?: string;
      /** Names that the event tells, by open id. */
      names: Map<string, string>;
    };

/** Throws ZodError if it isn't an event of this kind. */
export function parseMessage(event: unknown, { botOpenId, appId, mentionAll }: ParseSettings): Parsed {
  const { sender, message } = eventSchema.parse(event);
  const isBot = sender.sender_type !== 'user';
  const openId = sender.sender_id?.open_id || sender.sender_id?.app_id || '';
  if ([botOpenId, appId].includes(openId)) return { ignored: 'the bot itself' };
  // No other bot writes directly, and one without a name may be this one.
  if (isBot && (openId === '' || message.chat_type === 'p2p')) return { ignored: 'a bot, perhaps itself' };
  const mentions: Mention[] = (message.mentions ?? []).map(({ key, name, id }) => ({
    key,
    name,
    openId: id?.open_id ?? '',
  }));
  const { text, resources, mentionsAll } = readContent(
    message.message_type,
    message.content,
    mentions,
    botOpenId,
  );
  const group = message.chat_type !== 'p2p';
  const mentioned = !group || mentions.some((one) => one.openId === botOpenId) || (mentionAll && mentionsAll);
  const address: Address = {
    chat: message.chat_id,
    message: message.message_id,
    group,
    thread: message.thread_id !== undefined,
    ...(message.root_id ? { chain: true } : {}),
  };
  // In a thread, every message has the thread's root as its parent: only another one was quoted on purpose.
  const isRoot = message.thread_id !== undefined && message.parent_id === message.root_id;
  const quoted = isRoot ? undefined : message.parent_id;
  return {
    message: {
      id: message.message_id,
      chat: message.chat_id,
      ...(message.thread_id === undefined ? {} : { thread: message.thread_id }),
      sender: { id: openId, ...(isBot ? { bot: true } : {}) },
      text,
      group,
      mentioned,
      replyTo: { key: `${message.chat_id}:${message.thread_id ?? ''}`, address },
      at: message.create_time === undefined ? Date.now() : Number(message.create_time),
    },
    address,
    resources,
    ...(quoted ? { quoted } : {}),
    names: new Map(
      mentions.filter(({ name, openId: id }) => name && id).map((one) => [one.openId, one.name]),
    ),
  };
}

/** Absent in what isn't an event of the platform's second format. */
export const eventIdOf = (event: unknown): string | undefined =>
  eventIdSchema.safeParse(event).data?.event_id;

/** Id of the message that was taken back. Throws ZodError. */
export const parseRecall = (event: unknown): string => recallSchema.parse(event).message_id;
