// A fake of the Feishu open platform on one loopback port: tokens, messages, reactions, streaming cards, contacts and files over
// HTTP, events over the WebSocket of the long connection. It refuses what the platform refuses: bad tokens, too long contents,
// sequence numbers that don't rise; and it shows a message once for each uuid.
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { WebSocketServer, type WebSocket } from 'ws';
import { decodeFrame, encodeFrame } from './feishu-frames.ts';

export const APP_ID = 'cli_0123456789abcdef';
export const APP_SECRET = 'feishu-app-secret-value';
export const BOT_OPEN_ID = 'ou_bot';
/** A second app on the same platform. */
export const OTHER_APP = {
  id: 'cli_fedcba9876543210',
  secret: 'another-app-secret',
  botOpenId: 'ou_other_bot',
};
/** And a third. */
export const THIRD_APP = {
  id: 'cli_0f0f0f0f0f0f0f0f',
  secret: 'yet-another-app-secret',
  botOpenId: 'ou_third_bot',
};

type Json = Record<string, unknown>;

export interface FakeMessage {
  id: string;
  chat: string;
  replyTo?: string;
  inThread: boolean;
  type: string;
  content: string;
  uuid: string;
  recalled: boolean;
}

interface FakeCard {
  id: string;
  json: Json;
  streaming: boolean;
  sequence: number;
  /** Every content that was shown. */
  contents: string[];
}

export interface FakeCall {
  method: string;
  path: string;
  query: URLSearchParams;
  body: Json;
  /** When it came, as performance.now(). */
  at: number;
}

/** An answer instead of the usual one. */
export interface Failure {
  /** Default 200, as the platform often does. */
  status?: number;
  code?: number;
  headers?: Record<string, string>;
  /** Carried out, but the answer is lost: the connection ends. */
  lost?: boolean;
  /** How often; default once. */
  times?: number;
}

export interface MessageEvent {
  text?: string;
  id?: string;
  eventId?: string;
  chat?: string;
  group?: boolean;
  /** Whose event it is; default the first app's. */
  app?: string;
  sender?: string;
  senderType?: string;
  /** Mentions by open id, in the order of @_user_1, … */
  mentions?: { openId: string; name: string }[];
  type?: string;
  /** Instead of text. */
  content?: Json;
  thread?: string;
  root?: string;
  parent?: string;
  atMs?: number;
}

export interface FeishuServer {
  url: string;
  calls: FakeCall[];
  messages: FakeMessage[];
  cards: Map<string, FakeCard>;
  /** `message id` → reactions that are there. */
  reactions: Map<string, Set<string>>;
  names: Map<string, string>;
  /** Messages of people, for quotes. */
  quotes: Map<string, { text: string; sender: string; senderType?: string; type?: string; content?: Json }>;
  files: Map<string, Buffer>;
  /** Granted to the app. */
  scopes: Set<string>;
  /** What the application API tells of event subscriptions: with the app, with its versions, or nothing. */
  application: { event?: Json; versions: Json[] };
  uploads: { path: string; size: number }[];
  /** Resolves with the connection's acknowledgement code once it came. `parts`: fragments. */
  push(event: Json, options?: { parts?: number }): Promise<number>;
  /** Bytes on every connection, whatever they are. */
  sendRaw(data: Buffer | string): void;
  connected(): Promise<void>;
  connections(): number;
  dropConnections(): void;
  fail(method: string, path: RegExp, failure: Failure): void;
  /** No more failures. */
  heal(): void;
  /** For the next test on the same platform: nothing was sent yet, and nothing fails. Whoever is connected stays so. */
  clear(): void;
  /** Requests that match wait until the function it returns is called. */
  hold(method: string, path: RegExp): () => void;
  /** The chat of a message that was pushed. */
  chatOf(message: string): string;
  /** What people see of a chat: each message's text. */
  seen(chat: string): string[];
  /** From now on the tokens given out so far are refused. */
  expireTokens(): void;
  tokenRequests(): number;
  close(): Promise<void>;
}

export function messageEvent(message: MessageEvent = {}): Json {
  const id = message.id ?? `om_${Math.random().toString(36).slice(2)}`;
  const mentions = (message.mentions ?? []).map(({ openId, name }, n) => ({
    key: `@_user_${n + 1}`,
    id: { open_id: openId, union_id: `on_${openId}`, user_id: '' },
    name,
    tenant_key: 't1',
  }));
  return {
    schema: '2.0',
    header: {
      event_id: message.eventId ?? `ev_${id}`,
      event_type: 'im.message.receive_v1',
      create_time: String(message.atMs ?? Date.now()),
      token: 'verification-token',
      app_id: message.app ?? APP_ID,
      tenant_key: 't1',
    },
    event: {
      sender: {
        sender_id: { open_id: message.sender ?? 'ou_ada', union_id: 'on_ada', user_id: '' },
        sender_type: message.senderType ?? 'user',
        tenant_key: 't1',
      },
      message: {
        message_id: id,
        chat_id: message.chat ?? 'oc_chat',
        chat_type: message.group ? 'group' : 'p2p',
        message_type: message.type ?? 'text',
        content: JSON.stringify(message.content ?? { text: message.text ?? '' }),
        create_time: String(message.atMs ?? Date.now()),
        update_time: String(message.atMs ?? Date.now()),
        ...(message.thread ? { thread_id: message.thread } : {}),
        ...(message.root ? { root_id: message.root } : {}),
        ...(message.parent ? { parent_id: message.parent } : {}),
        ...(mentions.length > 0 ? { mentions } : {}),
      },
    },
  };
}

export function recallEvent(message: string, chat = 'oc_chat'): Json {
  const create_time = String(Date.now());
  return {
    schema: '2.0',
    header: {
      event_id: `ev_recall_${message}`,
      event_type: 'im.message.recalled_v1',
      create_time,
      app_id: APP_ID,
    },
    event: { message_id: message, chat_id: chat, recall_time: create_time, recall_type: 'message_owner' },
  };
}

interface App {
  id: string;
  secret: string;
  botOpenId: string;
}

const APPS: App[] = [{ id: APP_ID, secret: APP_SECRET, botOpenId: BOT_OPEN_ID }, OTHER_APP, THIRD_APP];

/** A refusal: code and message, with an HTTP status of the platform's habit. */
class Refused extends Error {
  readonly code: number;
  readonly status: number;
  constructor(code: number, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

export async function startFeishuServer(): Promise<FeishuServer> {
  const calls: FakeCall[] = [];
  const messages: FakeMessage[] = [];
  const cards = new Map<string, FakeCard>();
  const reactions = new Map<string, Set<string>>();
  const names = new Map<string, string>();
  const quotes: FeishuServer['quotes'] = new Map();
  const files = new Map<string, Buffer>();
  const uploads: { path: string; size: number }[] = [];
  const scopes = new Set<string>();
  const application: FeishuServer['application'] = { versions: [] };
  const failures: (Failure & { method: string; path: RegExp; left: number })[] = [];
  const holds: { method: string; path: RegExp; released: Promise<void> }[] = [];
  /** Token → app. */
  const tokens = new Map<string, App>();
  /** Connection → app id. */
  const sockets = new Map<WebSocket, string>();
  const acks = new Map<string, (code: number) => void>();
  const waitingForConnection: (() => void)[] = [];
  let serial = 0;
  let tokenRequests = 0;

  function send(chat: string, body: Json, replyTo?: string): Json {
    const { uuid = '', msg_type, content } = body as { uuid?: string; msg_type: string; content: string };
    const known = uuid === '' ? undefined : messages.find((message) => message.uuid === uuid);
    if (known) return { message_id: known.id, msg_type: known.type, chat_id: known.chat };
    if (uuid.length > 50) throw new Refused(99992402, 'uuid is too long');
    const parsed = JSON.parse(content) as Json;
    if (Buffer.byteLength(content) > (msg_type === 'text' ? 150_000 : 30_720))
      throw new Refused(230025, 'The length of the message content reaches its limit.');
    if (msg_type === 'interactive') checkCard(parsed);
    const id = `om_bot_${++serial}`;
    messages.push({
      id,
      chat,
      ...(replyTo === undefined ? {} : { replyTo }),
      inThread: body['reply_in_thread'] === true,
      type: msg_type,
      content,
      uuid,
      recalled: false,
    });
    return { message_id: id, msg_type, chat_id: chat };
  }

  function checkCard(card: Json): void {
    if (card['type'] === 'card') {
      const { card_id = '' } = card['data'] as { card_id?: string };
      if (!cards.has(card_id)) throw new Refused(230099, 'no such card');
      return;
    }
    if (card['schema'] !== '2.0') throw new Refused(230099, 'Failed to create card content');
    const tables = contentOf(card).match(/^\|[ :|-]+\|$/gm)?.length ?? 0;
    const outside =
      contentOf(card)
        .replaceAll(/^```[^]*?^```/gm, '')
        .match(/^\|[ :|-]+\|$/gm)?.length ?? 0;
    if (tables > 0 && outside > 5)
      throw new Refused(230099, 'ErrCode: 11310; ErrMsg: card table number over limit');
  }

  function cardOf(id: string, sequence: unknown): FakeCard {
    const card = cards.get(id);
    if (!card) throw new Refused(300300, 'card not found');
    if (typeof sequence !== 'number' || sequence > 2 ** 31 - 1)
      throw new Refused(99992402, 'sequence is not an int32');
    if (sequence <= card.sequence) throw new Refused(300317, 'sequence number compare failed');
    card.sequence = sequence;
    return card;
  }

  const chats = new Map<string, string>();

  function route(app: App, method: string, path: string, query: URLSearchParams, body: Json): Json {
    const match = (pattern: RegExp): string[] | undefined => pattern.exec(path)?.slice(1);
    let found: string[] | undefined;
    if (path === '/bot/v3/info')
      return { bot: { open_id: app.botOpenId, app_name: 'Lane', activate_status: 2 } };
    if (path === '/application/v6/scopes')
      return { data: { scopes: [...scopes].map((scope_name) => ({ scope_name, grant_status: 1 })) } };
    if (path.startsWith('/application/v6/applications/')) {
      if (!scopes.has('application:application:self_manage'))
        throw new Refused(99991672, 'Access denied: application:application:self_manage');
      if (path === `/application/v6/applications/${app.id}`) {
        const { event } = application;
        return { data: { app: { app_id: app.id, ...(event ? { event } : {}) } } };
      }
      if (path === `/application/v6/applications/${app.id}/app_versions`)
        return { data: { items: application.versions, has_more: false } };
    }
    if (method === 'POST' && path === '/im/v1/messages') {
      if (query.get('receive_id_type') !== 'chat_id') throw new Refused(99992402, 'receive_id_type');
      return { data: send(String(body['receive_id']), body) };
    }
    if (method === 'POST' && (found = match(/^\/im\/v1\/messages\/([^/]+)\/reply$/))) {
      const [target = ''] = found;
      return { data: send(chats.get(target) ?? 'unknown', body, target) };
    }
    if ((found = match(/^\/im\/v1\/messages\/([^/]+)$/))) {
      const [id = ''] = found;
      if (method === 'GET') {
        const quote = quotes.get(id);
        if (!quote) throw new Refused(230110, 'The message does not exist');
        const item = {
          message_id: id,
          msg_type: quote.type ?? 'text',
          body: { content: JSON.stringify(quote.content ?? { text: quote.text }) },
          sender: { id: quote.sender, id_type: 'open_id', sender_type: quote.senderType ?? 'user' },
        };
        return { data: { items: [item] } };
      }
      const message = messages.find((one) => one.id === id);
      if (!message) throw new Refused(230001, 'no such message');
      if (message.recalled) throw new Refused(230011, 'The message was withdrawn.');
      if (method === 'DELETE') message.recalled = true;
      else {
        const card = JSON.parse(String(body['content'])) as Json;
        checkCard(card);
        message.content = String(body['content']);
      }
      return { data: {} };
    }
    if ((found = match(/^\/im\/v1\/messages\/([^/]+)\/reactions(?:\/([^/]+))?$/))) {
      const [id = '', reaction] = found;
      const there = reactions.get(id) ?? new Set();
      reactions.set(id, there);
      if (method === 'GET') {
        const operator = { operator_id: app.id, operator_type: 'app' };
        return {
          data: { items: [...there].map((reaction_id) => ({ reaction_id, operator })), has_more: false },
        };
      }
      if (method === 'DELETE') {
        if (!there.delete(reaction ?? '')) throw new Refused(231007, 'no such reaction');
        return { data: {} };
      }
      const { emoji_type } = body['reaction_type'] as { emoji_type: string };
      const reaction_id = `${emoji_type}-${++serial}`;
      there.add(reaction_id);
      return { data: { reaction_id } };
    }
    if ((found = match(/^\/contact\/v3\/users\/([^/]+)$/))) {
      const name = names.get(found[0] ?? '');
      if (name === undefined) throw new Refused(41050, 'no user authority error');
      return { data: { user: { name, open_id: found[0] } } };
    }
    if (path === '/cardkit/v1/cards') {
      const json = JSON.parse(String(body['data'])) as Json;
      checkCard(json);
      const id = `card_${++serial}`;
      const config = json['config'] as { streaming_mode?: boolean };
      cards.set(id, { id, json, streaming: config.streaming_mode === true, sequence: 0, contents: [] });
      return { data: { card_id: id } };
    }
    if ((found = match(/^\/cardkit\/v1\/cards\/([^/]+)\/elements\/([^/]+)\/content$/))) {
      const card = cards.get(found[0] ?? '');
      if (card && !card.streaming) throw new Refused(300309, 'streaming mode is closed');
      const target = cardOf(found[0] ?? '', body['sequence']);
      const [element] = (target.json['body'] as { elements: Json[] }).elements;
      if (element?.['element_id'] !== found[1]) throw new Refused(300313, 'element not found');
      element!['content'] = body['content'];
      target.contents.push(String(body['content']));
      return { data: {} };
    }
    if ((found = match(/^\/cardkit\/v1\/cards\/([^/]+)\/settings$/))) {
      const { config } = JSON.parse(String(body['settings'])) as { config: { streaming_mode: boolean } };
      cardOf(found[0] ?? '', body['sequence']).streaming = config.streaming_mode;
      return { data: {} };
    }
    if (method === 'PUT' && (found = match(/^\/cardkit\/v1\/cards\/([^/]+)$/))) {
      const { data } = body['card'] as { data: string };
      const card = cardOf(found[0] ?? '', body['sequence']);
      card.json = JSON.parse(data) as Json;
      card.streaming = false;
      card.contents.push(contentOf(card.json));
      return { data: {} };
    }
    throw new Refused(404, `no such API: ${method} ${path}`, 404);
  }

  async function answer(
    request: IncomingMessage,
  ): Promise<{ status: number; body: unknown; headers?: Json; lost?: boolean }> {
    const url = new URL(request.url ?? '/', 'http://fake');
    const raw = await read(request);
    const isForm = String(request.headers['content-type']).startsWith('multipart/');
    const body = isForm || raw.length === 0 ? {} : (JSON.parse(raw.toString('utf8')) as Json);
    const method = request.method ?? 'GET';
    const path = url.pathname.replace(/^\/open-apis/, '');
    calls.push({ method, path, query: url.searchParams, body, at: performance.now() });
    for (const hold of holds) if (hold.method === method && hold.path.test(path)) await hold.released;
    const failure = failures.find((one) => one.left > 0 && one.method === method && one.path.test(path));
    if (failure) failure.left--;
    if (failure && !failure.lost) {
      const { status = 200, code = 99999, headers } = failure;
      return { status, body: { code, msg: `made to fail with ${code}` }, ...(headers ? { headers } : {}) };
    }
    const done = (value: Json) => ({
      status: 200,
      body: { code: 0, msg: 'success', ...value },
      lost: failure?.lost,
    });

    if (path === '/auth/v3/tenant_access_token/internal') {
      tokenRequests++;
      const app = APPS.find(({ id, secret }) => id === body['app_id'] && secret === body['app_secret']);
      if (!app) return { status: 200, body: { code: 10014, msg: 'app secret invalid' } };
      const token = `t-${++serial}`;
      tokens.set(token, app);
      return done({ tenant_access_token: token, expire: 7200 });
    }
    if (path === '/callback/ws/endpoint') {
      const app = APPS.find(({ id, secret }) => id === body['AppID'] && secret === body['AppSecret']);
      if (!app) return { status: 200, body: { code: 514, msg: 'auth failed', data: {} } };
      // The vendor's parser loses the first key.
      const URL = `ws://127.0.0.1:${port()}/ws?first=1&device_id=d1&service_id=7&ticket=secret-ticket-${app.id}`;
      const ClientConfig = {
        PingInterval: 60,
        ReconnectCount: -1,
        ReconnectInterval: 0.05,
        ReconnectNonce: 0.05,
      };
      return done({ data: { URL, ClientConfig } });
    }
    const app = tokens.get((request.headers.authorization ?? '').replace(/^Bearer /, ''));
    if (!app) return { status: 400, body: { code: 99991663, msg: 'Invalid access token' } };
    const resource = /^\/im\/v1\/messages\/[^/]+\/resources\/([^/]+)$/.exec(path);
    if (resource) {
      const file = files.get(resource[1] ?? '');
      return file
        ? { status: 200, body: file }
        : { status: 400, body: { code: 234003, msg: 'File not in msg.' } };
    }
    if (isForm) {
      uploads.push({ path, size: raw.length });
      return done({
        data: path.endsWith('images') ? { image_key: `img_${++serial}` } : { file_key: `file_${++serial}` },
      });
    }
    try {
      return done(route(app, method, path, url.searchParams, body));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { status: error.status, body: { code: error.code, msg: error.message } };
    }
  }

  const http = createServer((request, response) => {
    answer(request)
      .then(({ status, body, headers, lost }) => {
        if (lost) return void response.destroy();
        response.writeHead(status, {
          'content-type': 'application/json',
          ...(headers as Record<string, string>),
        });
        response.end(Buffer.isBuffer(body) ? body : JSON.stringify(body));
      })
      .catch((error: unknown) => {
        response.writeHead(500).end(String(error));
      });
  });
  const port = () => (http.address() as { port: number }).port;
  const wss = new WebSocketServer({ server: http, path: '/ws' });
  wss.on('connection', (socket, request) => {
    const query = new URL(request.url ?? '', 'http://fake').searchParams;
    const [, app] = /^secret-ticket-(.*)$/.exec(query.get('ticket') ?? '') ?? [];
    if (app === undefined || query.get('service_id') !== '7') return socket.close();
    sockets.set(socket, app);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => sockets.delete(socket));
    socket.on('message', (data: Buffer) => {
      const frame = decodeFrame(data);
      if (frame.method === 0) {
        const pong = { PingInterval: 60, ReconnectCount: -1, ReconnectInterval: 0.05, ReconnectNonce: 0.05 };
        const payload = Buffer.from(JSON.stringify(pong));
        socket.send(encodeFrame({ service: 7, method: 0, headers: { type: 'pong' }, payload }));
        return;
      }
      const { code } = JSON.parse(frame.payload.toString('utf8')) as { code: number };
      acks.get(frame.headers['message_id'] ?? '')?.(code);
    });
    for (const resolve of waitingForConnection.splice(0)) resolve();
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');

  return {
    url: `http://127.0.0.1:${port()}`,
    calls,
    messages,
    cards,
    reactions,
    names,
    quotes,
    files,
    scopes,
    application,
    uploads,
    async push(event, { parts = 1 } = {}) {
      const { message } = (event['event'] ?? {}) as { message?: { message_id: string; chat_id: string } };
      if (message) chats.set(message.message_id, message.chat_id);
      const { app_id = APP_ID } = (event['header'] ?? {}) as { app_id?: string };
      const [socket] = [...sockets].find(([, app]) => app === app_id) ?? [];
      if (!socket) throw new Error('no connection');
      const message_id = `frame_${++serial}`;
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      acks.set(message_id, resolve);
      const closed = () => reject(new Error('the connection closed before the acknowledgement'));
      socket.once('close', closed);
      const payload = Buffer.from(JSON.stringify(event));
      const size = Math.ceil(payload.length / parts);
      for (let seq = 0; seq < parts; seq++) {
        const headers = {
          type: 'event',
          message_id,
          sum: String(parts),
          seq: String(seq),
          trace_id: 'trace',
        };
        socket.send(
          encodeFrame({
            service: 7,
            method: 1,
            headers,
            payload: payload.subarray(seq * size, (seq + 1) * size),
          }),
        );
      }
      return promise.finally(() => socket.off('close', closed));
    },
    sendRaw(data) {
      for (const socket of sockets.keys()) socket.send(data);
    },
    connected: () =>
      sockets.size > 0 ? Promise.resolve() : new Promise((resolve) => waitingForConnection.push(resolve)),
    connections: () => sockets.size,
    dropConnections() {
      for (const socket of sockets.keys()) socket.terminate();
      sockets.clear();
    },
    fail(method, path, failure) {
      failures.push({ ...failure, method, path, left: failure.times ?? 1 });
    },
    heal() {
      failures.length = 0;
    },
    clear() {
      for (const list of [calls, messages, uploads, failures]) list.length = 0;
      for (const map of [cards, reactions, quotes, files]) map.clear();
    },
    hold(method, path) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const hold = { method, path, released: promise };
      holds.push(hold);
      return () => {
        holds.splice(holds.indexOf(hold), 1);
        resolve();
      };
    },
    chatOf: (message) => chats.get(message) ?? 'unknown',
    seen: (chat) =>
      messages
        .filter((message) => message.chat === chat && !message.recalled)
        .map((message) => textOf(message, cards)),
    expireTokens: () => tokens.clear(),
    tokenRequests: () => tokenRequests,
    async close() {
      for (const socket of sockets.keys()) socket.terminate();
      wss.close();
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
}

function textOf({ type, content }: FakeMessage, cards: Map<string, FakeCard>): string {
  const body = JSON.parse(content) as Json;
  if (type === 'text') return String(body['text']);
  if (type === 'post') {
    const { content: lines } = body['zh_cn'] as { content: { text: string }[][] };
    return lines.map((line) => line.map(({ text }) => text).join('')).join('\n');
  }
  if (type !== 'interactive') return `(${type})`;
  if (body['type'] !== 'card') return contentOf(body);
  const { card_id } = body['data'] as { card_id: string };
  return contentOf(cards.get(card_id)?.json ?? {});
}

function contentOf(card: Json): string {
  const { elements } = (card['body'] ?? { elements: [] }) as { elements: { content?: string }[] };
  return elements.map(({ content = '' }) => content).join('\n');
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}
