// What the bot does on the platform, in our words: each method is one call of the open API (caller.ts). They reject with
// FeishuError.
import { z } from 'zod';
import {
  appSchema,
  botSchema,
  cardSchema,
  fileSchema,
  imageSchema,
  itemsSchema,
  PUBLISHED,
  reactionSchema,
  reactionsSchema,
  scopesSchema,
  sentSchema,
  userSchema,
  versionsSchema,
} from './answers.ts';
import { createCaller, type CallerOptions } from './caller.ts';

/** Content of a message as the platform takes it: a type, and JSON in a string. */
export interface Content {
  type: 'text' | 'post' | 'interactive' | 'image' | 'file' | 'audio';
  json: string;
}

/** Where a message goes: into a chat, or as a reply to a message, in its thread if it has one. */
export interface Target {
  chat: string;
  replyTo?: string;
  thread?: boolean;
}

export interface FeishuApi {
  /** The bot itself. */
  bot(): Promise<{ openId: string; name: string }>;
  /** Scopes that were granted to the app. */
  scopes(): Promise<Set<string>>;
  /** Events that the app subscribes to. Undefined: the platform doesn't tell. */
  subscriptions(): Promise<Subscriptions | undefined>;
  /** Sends once for each `uuid` within an hour; resolves with the message that is there, and its type. */
  send(target: Target, content: Content, uuid: string): Promise<{ id: string; type?: string }>;
  /** Replaces a card that was sent as a message. */
  patch(message: string, card: string): Promise<void>;
  recall(message: string): Promise<void>;
  message(id: string): Promise<FetchedMessage | undefined>;
  userName(openId: string): Promise<string | undefined>;
  react(message: string, emoji: string): Promise<string>;
  unreact(message: string, reaction: string): Promise<void>;
  /** Reactions of this kind that the bot itself put there. */
  reactions(message: string, emoji: string): Promise<string[]>;
  createCard(card: string): Promise<string>;
  cardOf(message: string): Promise<string>;
  /** The full text of one element of a streaming card. */
  writeCard(card: string, element: string, text: string, sequence: number): Promise<void>;
  closeCard(card: string, sequence: number): Promise<void>;
  replaceCard(card: string, json: string, sequence: number): Promise<void>;
  /** A file of a message. */
  resource(
    message: string,
    key: string,
    type: 'image' | 'file',
    maxBytes: number,
  ): Promise<{ bytes: Buffer; mediaType: string }>;
  uploadImage(bytes: Buffer): Promise<string>;
  uploadFile(bytes: Buffer, name: string, type: string): Promise<string>;
}

export interface Subscriptions {
  events: Set<string>;
  /** How they are delivered, if told. */
  mode?: 'websocket' | 'webhook';
}

export interface FetchedMessage {
  type: string;
  content: string;
  sender: { id: string; type: string };
  mentions: { key: string; name: string; id: string }[];
}

const OGG = Buffer.from('OggS');
const MODES = ['websocket', 'webhook'] as const;

export function createApi(options: CallerOptions): FeishuApi {
  const { settings } = options;
  const { call, upload, download } = createCaller(options);
  const nothing = z.unknown();
  const path = encodeURIComponent;

  return {
    async bot() {
      const { bot } = await call(botSchema, 'GET', '/bot/v3/info');
      return { openId: bot.open_id, name: bot.app_name };
    },
    async scopes() {
      const { data } = await call(scopesSchema, 'GET', '/application/v6/scopes');
      return new Set(data.scopes.filter((one) => one.grant_status === 1).map((one) => one.scope_name));
    },
    async subscriptions() {
      const app = `/application/v6/applications/${path(settings.app_id)}`;
      const params = { lang: 'zh_cn' };
      const { event } = (await call(appSchema, 'GET', app, { params })).data.app;
      if (event?.subscribed_events) {
        const mode = MODES.find((one) => one === event.subscription_type?.toLowerCase());
        return { events: new Set(event.subscribed_events), ...(mode === undefined ? {} : { mode }) };
      }
      // Older answers have them with the versions only, newest first.
      const { data } = await call(versionsSchema, 'GET', `${app}/app_versions`, {
        params: { ...params, page_size: 20 },
      });
      const published = data.items.find(({ status, event_infos }) => status === PUBLISHED && event_infos);
      if (!published) return undefined;
      return { events: new Set(published.event_infos?.map(({ event_type }) => event_type ?? '')) };
    },
    async send({ chat, replyTo, thread }, { type, json }, uuid) {
      const message = { msg_type: type, content: json, uuid };
      const { data } =
        replyTo === undefined
          ? await call(sentSchema, 'POST', '/im/v1/messages', {
              params: { receive_id_type: 'chat_id' },
              data: { receive_id: chat, ...message },
            })
          : await call(sentSchema, 'POST', `/im/v1/messages/${path(replyTo)}/reply`, {
              data: { ...message, ...(thread ? { reply_in_thread: true } : {}) },
            });
      return { id: data.message_id, ...(data.msg_type === undefined ? {} : { type: data.msg_type }) };
    },
    async patch(message, card) {
      await call(nothing, 'PATCH', `/im/v1/messages/${path(message)}`, { data: { content: card } });
    },
    async recall(message) {
      await call(nothing, 'DELETE', `/im/v1/messages/${path(message)}`);
    },
    async message(id) {
      const { data } = await call(itemsSchema, 'GET', `/im/v1/messages/${path(id)}`);
      const [item] = data.items;
      if (!item?.body || item.deleted) return undefined;
      const { id: sender = '', sender_type: type = 'user' } = item.sender ?? {};
      return {
        type: item.msg_type,
        content: item.body.content,
        sender: { id: sender, type },
        mentions: item.mentions,
      };
    },
    async userName(openId) {
      const answer = await call(userSchema, 'GET', `/contact/v3/users/${path(openId)}`, {
        params: { user_id_type: 'open_id' },
      });
      return answer.data.user.name;
    },
    async react(message, emoji) {
      const answer = await call(reactionSchema, 'POST', `/im/v1/messages/${path(message)}/reactions`, {
        data: { reaction_type: { emoji_type: emoji } },
      });
      return answer.data.reaction_id;
    },
    async unreact(message, reaction) {
      await call(nothing, 'DELETE', `/im/v1/messages/${path(message)}/reactions/${path(reaction)}`);
    },
    async reactions(message, emoji) {
      const { data } = await call(reactionsSchema, 'GET', `/im/v1/messages/${path(message)}/reactions`, {
        params: { reaction_type: emoji },
      });
      return data.items
        .filter(
          ({ operator }) => operator.operator_type === 'app' && operator.operator_id === settings.app_id,
        )
        .map(({ reaction_id }) => reaction_id);
    },
    async createCard(card) {
      const answer = await call(cardSchema, 'POST', '/cardkit/v1/cards', {
        data: { type: 'card_json', data: card },
      });
      return answer.data.card_id;
    },
    async cardOf(message) {
      const data = { message_id: message };
      return (await call(cardSchema, 'POST', '/cardkit/v1/cards/id_convert', { data })).data.card_id;
    },
    async writeCard(card, element, text, sequence) {
      const data = { content: text, sequence, uuid: `${element}-${sequence}` };
      await call(nothing, 'PUT', `/cardkit/v1/cards/${path(card)}/elements/${path(element)}/content`, {
        data,
      });
    },
    async closeCard(card, sequence) {
      const json = JSON.stringify({ config: { streaming_mode: false } });
      const data = { settings: json, sequence, uuid: `close-${sequence}` };
      await call(nothing, 'PATCH', `/cardkit/v1/cards/${path(card)}/settings`, { data });
    },
    async replaceCard(card, json, sequence) {
      const data = { card: { type: 'card_json', data: json }, sequence, uuid: `replace-${sequence}` };
      await call(nothing, 'PUT', `/cardkit/v1/cards/${path(card)}`, { data });
    },
    async resource(message, key, type, maxBytes) {
      const place = `/im/v1/messages/${path(message)}/resources/${path(key)}`;
      const found = await download(place, { type }, maxBytes);
      // Voice messages come as bytes of no named kind.
      return found.bytes.subarray(0, OGG.length).equals(OGG) ? { ...found, mediaType: 'audio/ogg' } : found;
    },
    async uploadImage(bytes) {
      const data = new FormData();
      data.set('image_type', 'message');
      data.set('image', new Blob([new Uint8Array(bytes)]), 'image');
      return (await upload(imageSchema, '/im/v1/images', data)).data.image_key;
    },
    async uploadFile(bytes, name, type) {
      const data = new FormData();
      data.set('file_type', type);
      data.set('file_name', name);
      data.set('file', new Blob([new Uint8Array(bytes)]), name);
      return (await upload(fileSchema, '/im/v1/files', data)).data.file_key;
    },
  };
}
