// What the bot does on the platform, in our words: each method is one call of the open API, made through the vendor's
// client. Methods reject with FeishuError; a token that turned bad is replaced and the call made once more.
import * as lark from '@larksuiteoapi/node-sdk';
import { z } from 'zod';
import type { FeishuSettings } from '../../../config/schema.ts';
import type { Logger } from '../../../src/ports/log.ts';
import { FeishuError } from './codes.ts';
import { createHttp, type Http, type HttpRequest } from './http.ts';

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

export interface ApiOptions {
  settings: FeishuSettings;
  log: Logger;
  signal: AbortSignal;
  now: () => number;
  timeoutMs?: number;
}

const TIMEOUT_MS = 8_000;
const OGG = Buffer.from('OggS');
const MODES = ['websocket', 'webhook'] as const;

const sentSchema = z.object({
  data: z.object({ message_id: z.string(), msg_type: z.string().optional() }),
});
const botSchema = z.object({ bot: z.object({ open_id: z.string(), app_name: z.string().default('') }) });
const scopesSchema = z.object({
  data: z.object({ scopes: z.array(z.object({ scope_name: z.string(), grant_status: z.number() })) }),
});
const appSchema = z.object({
  data: z.object({
    app: z.object({
      event: z
        .object({ subscription_type: z.string().nullish(), subscribed_events: z.array(z.string()).nullish() })
        .nullish(),
    }),
  }),
});
const versionsSchema = z.object({
  data: z.object({
    items: z
      .array(
        z.object({
          status: z.number().optional(),
          event_infos: z.array(z.object({ event_type: z.string().nullish() })).nullish(),
        }),
      )
      .default([]),
  }),
});
/** Of a version: approved, so that it is or was in use. */
const PUBLISHED = 1;
const itemsSchema = z.object({
  data: z.object({
    items: z.array(
      z.object({
        msg_type: z.string().default('text'),
        deleted: z.boolean().optional(),
        body: z.object({ content: z.string() }).optional(),
        sender: z.object({ id: z.string(), sender_type: z.string().default('user') }).optional(),
        mentions: z.array(z.object({ key: z.string(), name: z.string(), id: z.string() })).default([]),
      }),
    ),
  }),
});
const userSchema = z.object({ data: z.object({ user: z.object({ name: z.string().optional() }) }) });
const reactionSchema = z.object({ data: z.object({ reaction_id: z.string() }) });
const reactionsSchema = z.object({
  data: z.object({
    items: z
      .array(
        z.object({
          reaction_id: z.string(),
          operator: z.object({ operator_id: z.string(), operator_type: z.string() }),
        }),
      )
      .default([]),
  }),
});
const cardSchema = z.object({ data: z.object({ card_id: z.string() }) });
const imageSchema = z.object({ data: z.object({ image_key: z.string() }) });
const fileSchema = z.object({ data: z.object({ file_key: z.string() }) });

export function createApi({ settings, log, signal, now, timeoutMs = TIMEOUT_MS }: ApiOptions): FeishuApi {
  const http = createHttp({ timeoutMs, signal, now });
  const cache = createTokenCache(now);
  const client = new lark.Client({
    appId: settings.app_id,
    appSecret: settings.app_secret,
    domain: domainOf(settings.domain),
    cache,
    logger: sdkLogger(log),
    loggerLevel: lark.LoggerLevel.warn,
    httpInstance: httpInstance(http),
  });

  async function once<T>(schema: z.ZodType<T>, request: HttpRequest & { url: string; method: string }) {
    const answer: unknown = await client.request(request as Parameters<typeof client.request>[0]);
    const parsed = schema.safeParse(answer);
    if (!parsed.success)
      throw new FeishuError('the platform answered in an unknown shape', { httpStatus: 502 });
    return parsed.data;
  }

  async function call<T>(
    schema: z.ZodType<T>,
    method: string,
    path: string,
    { params, data }: Pick<HttpRequest, 'params' | 'data'> = {},
  ): Promise<T> {
    return withToken(() => once(schema, { method, url: `/open-apis${path}`, params, data }));
  }

  /** A token that turned bad is replaced and the call made once more. */
  async function withToken<T>(work: () => Promise<T>): Promise<T> {
    const generation = cache.generation();
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof FeishuError) || error.kind !== 'token') throw error;
      // Of many calls that fail at once, the first one forgets the token; the new one is left alone.
      if (cache.generation() === generation) cache.clear();
      return work();
    }
  }

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
      const url = new URL(
        `/open-apis/im/v1/messages/${path(message)}/resources/${path(key)}`,
        domainOf(settings.domain),
      );
      // Not through client.request, which keeps no limit.
      const found = await withToken(async () =>
        http.bytes({ url: url.href, headers: await authorization(), params: { type } }, maxBytes),
      );
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

  async function upload<T>(schema: z.ZodType<T>, apiPath: string, data: FormData): Promise<T> {
    const url = new URL(`/open-apis${apiPath}`, domainOf(settings.domain)).href;
    // Not through client.request: it spreads its data, which empties a form.
    return withToken(async () =>
      schema.parse(await http.json({ method: 'POST', url, headers: await authorization(), data })),
    );
  }

  async function authorization(): Promise<{ Authorization: string }> {
    const token: unknown = await client.tokenManager.getTenantAccessToken();
    return { Authorization: `Bearer ${String(token)}` };
  }
}

export const domainOf = (domain: string): string =>
  domain === 'feishu' ? 'https://open.feishu.cn' : domain === 'lark' ? 'https://open.larksuite.com' : domain;

/** The part of the vendor's HTTP interface that its client uses. */
export function httpInstance(http: Pick<Http, 'json'>): lark.HttpInstance {
  const send = (request: HttpRequest) => http.json(request);
  const bare = (method: string) => (url: string, options?: HttpRequest) => send({ ...options, url, method });
  const full = (method: string) => (url: string, data?: unknown, options?: HttpRequest) =>
    send({ ...options, url, data, method });
  return {
    request: send,
    get: bare('GET'),
    delete: bare('DELETE'),
    head: bare('HEAD'),
    options: bare('OPTIONS'),
    post: full('POST'),
    put: full('PUT'),
    patch: full('PATCH'),
  } as lark.HttpInstance;
}

/** One app's tokens. The vendor's default is shared by all apps of the process. */
function createTokenCache(now: () => number): lark.Cache & { clear(): void; generation(): number } {
  const values = new Map<unknown, { value: unknown; until: number }>();
  let generation = 0;
  return {
    generation: () => generation,
    async get(key) {
      const found = values.get(key);
      return found && found.until > now() ? found.value : undefined;
    },
    async set(key, value, until = Infinity) {
      values.set(key, { value, until });
      return true;
    },
    clear() {
      generation++;
      values.clear();
    },
  };
}

/** Only what is known to be harmless is logged: the vendor's client hands over whole errors, with the app's secret in them. */
export function sdkLogger(log: Logger): lark.Logger {
  const say = (level: 'debug' | 'warn') => (message: unknown) => {
    const parts = (Array.isArray(message) ? message : [message]) as unknown[];
    const text = parts
      .map((part) =>
        part instanceof FeishuError ? part.message : typeof part === 'string' ? safe(part) : '',
      )
      .filter((part) => part !== '')
      .join(' ')
      .slice(0, 300);
    if (text !== '') log[level]({}, `feishu client: ${text}`);
  };
  // Errors reach their callers, who know how bad they are.
  return { error: say('debug'), warn: say('warn'), info: () => {}, debug: () => {}, trace: () => {} };
}

/** Connection URLs carry tickets; event payloads are people's messages. */
const safe = (text: string): string =>
  text.replaceAll(/\b(?:wss?|https?):\/\/\S+/g, '[address]').replace(/data: [^]*/, '[data]');
