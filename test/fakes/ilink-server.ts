// A fake of iLink on one loopback port: QR logins through all their states, long polls with a cursor, messages, typing, files
// on a CDN. It is strict: what the platform does not expect is refused and kept in `violations`, which tests hold to be empty.
// A message is given again to whoever comes with an old cursor; a client_id is shown once.
import { createDecipheriv, createCipheriv, createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

type Json = Record<string, unknown>;

export type QrState = 'wait' | 'scaned' | 'confirmed' | 'expired' | 'scaned_but_redirect' | 'need_verifycode';

export interface FakeQr {
  id: string;
  /** What the picture shows. */
  content: string;
  /** Says it to the poll that is held, or to the next one. `more` goes with it. */
  become(status: QrState | 'verify_code_blocked' | 'binded_redirect', more?: Json): void;
  /** The bot's login is confirmed; resolves when the client has heard it. */
  confirm(bot: string): Promise<void>;
  /** Codes that came with the polls. */
  codes: string[];
}

export interface FakeSend {
  bot: string;
  to: string;
  clientId: string;
  context: string | undefined;
  /** Of a text item. */
  text?: string;
  /** Of a media item, decrypted. */
  file?: { type: number; bytes: Buffer; name?: string };
}

export interface Failure {
  ret?: number;
  errcode?: number;
  /** HTTP. */
  status?: number;
  /** As if all was well, but nothing was delivered. */
  withoutId?: boolean;
  /** It is done, and the answer is lost. */
  lost?: boolean;
  /** What is answered in place of JSON. */
  body?: string;
  times?: number;
  /** Calls that go well before it. */
  after?: number;
}

export interface IlinkServer {
  url: string;
  violations: string[];
  /** Every exchange, as `METHOD path`. */
  calls: { method: string; path: string; body: Json; at: number }[];
  /** The QR code that is shown now or next, past the first `after`. */
  qr(after?: number): Promise<FakeQr>;
  qrs: FakeQr[];
  /** A code that this host knows, though another one made it. */
  qrHere(): FakeQr;
  /** A person writes to the bot. Resolves with the message's id. */
  say(bot: string, message: FakeSaid): string;
  /** The same; whether the client moved its cursor past it, or came for it once more. */
  offer(bot: string, message: FakeSaid): Promise<boolean>;
  /** Hands over what may be no message at all. */
  pushRaw(bot: string, message: unknown): void;
  /** Resolves when the client has moved its cursor past everything that was said to this bot. */
  taken(bot: string): Promise<void>;
  sends: FakeSend[];
  /** What a person sees, each client_id once. */
  seen(user: string): string[];
  typing: { user: string; status: number; at: number }[];
  /** The bot's token is worth nothing from now on. */
  kill(bot: string, how?: 'ret' | 'errcode'): void;
  /** The next answers to this path (its last segment) are these. */
  fail(path: string, failure: Failure): void;
  /** Puts a file on the CDN: the media of an item. */
  put(bytes: Buffer, keyForm?: 'raw' | 'hex' | 'none'): Json;
  /** Polls that are held now. */
  polls(bot: string): number;
  /** Cursors that polls came with, oldest first. */
  cursors: string[];
  /** Those of one bot. */
  cursorsOf(bot: string): string[];
  connections(): number;
  close(): Promise<void>;
}

export interface FakeSaid {
  from?: string;
  text?: string;
  items?: Json[];
  /** uint64, in decimal. */
  id?: string;
  at?: number;
  more?: Json;
}

export interface IlinkOptions {
  /** How long polls are held. */
  holdMs?: number;
  /** The method that the CDN takes files with. */
  uploadMethod?: 'POST' | 'PUT';
  /** Tells whole addresses of files, or only their parameters. */
  wholeUrls?: boolean;
}

interface Bot {
  id: string;
  token: string;
  dead: 'ret' | 'errcode' | undefined;
  messages: { seq: number; message: unknown }[];
  /** How far the client has come. */
  taken: number;
  /** The newest that it was given. */
  given: number;
  cursors: string[];
  /** What it may come for once more. */
  offers: Set<{ seq: number; resolve: (taken: boolean) => void }>;
}

const newBot = (id: string, token: string): Bot => ({
  id,
  token,
  dead: undefined,
  messages: [],
  taken: 0,
  given: 0,
  cursors: [],
  offers: new Set(),
});

const JSON_TYPE = 'application/json';
const BIG = /"@uint64:(\d+)"/g;
const big = (digits: string) => `@uint64:${digits}`;
/** Beyond what a double can hold. */
const FIRST_ID = 7_460_000_000_000_000_001n;

export async function startIlinkServer(options: IlinkOptions = {}): Promise<IlinkServer> {
  const { holdMs = 2_000, uploadMethod = 'POST', wholeUrls = false } = options;
  const bots = new Map<string, Bot>();
  const qrs: (FakeQr & { status: string; more: Json; heard: Set<string> })[] = [];
  const violations: string[] = [];
  const calls: IlinkServer['calls'] = [];
  const sends: FakeSend[] = [];
  const typing: IlinkServer['typing'] = [];
  const cursors: string[] = [];
  const contexts = new Map<string, string>();
  const files = new Map<string, Buffer>();
  const uploads = new Map<string, { size: number; md5: string; key: string }>();
  const md5s = new Map<string, string>();
  const failures: (Failure & { path: string; left: number; skip: number })[] = [];
  const held = new Set<{ bot?: string; wake: () => void }>();
  const waiters = new Set<{ holds: () => boolean; resolve: () => void }>();
  let serial = 0;
  const violate = (text: string): never => {
    violations.push(text);
    throw new Error(text);
  };

  function changed(): void {
    for (const { wake } of held) wake();
    for (const waiter of waiters) {
      if (!waiter.holds()) continue;
      waiters.delete(waiter);
      waiter.resolve();
    }
  }

  const until = (holds: () => boolean): Promise<void> =>
    holds() ? Promise.resolve() : new Promise((resolve) => void waiters.add({ holds, resolve }));

  /** Resolves when something changed, the client is gone, or it has been held for long enough. */
  function hold(response: ServerResponse, bot?: string): Promise<void> {
    return new Promise((resolve) => {
      const entry = { ...(bot === undefined ? {} : { bot }), wake: () => done() };
      const timer = setTimeout(() => done(), holdMs);
      const done = () => {
        clearTimeout(timer);
        held.delete(entry);
        response.off('close', done);
        resolve();
      };
      response.on('close', done);
      held.add(entry);
    });
  }

  function checkHeaders(request: IncomingMessage, body: Json, path: string): Bot | undefined {
    const { headers, method } = request;
    if (headers['ilink-app-id'] !== 'bot') violate(`${path}: iLink-App-Id`);
    if (!/^\d+$/.test(String(headers['ilink-app-clientversion'])))
      violate(`${path}: iLink-App-ClientVersion`);
    if (method === 'GET') {
      if (headers.authorization) violate(`${path}: a token goes with a GET`);
      return undefined;
    }
    if (headers['authorizationtype'] !== 'ilink_bot_token') violate(`${path}: AuthorizationType`);
    if (!String(headers['content-type']).startsWith(JSON_TYPE)) violate(`${path}: content-type`);
    const uin = Buffer.from(String(headers['x-wechat-uin']), 'base64').toString();
    if (!/^\d{1,10}$/.test(uin) || Number(uin) > 0xffff_ffff) violate(`${path}: X-WECHAT-UIN ${uin}`);
    if (path === 'get_bot_qrcode') {
      if (body['base_info'] || headers.authorization) violate(`${path}: says who asks`);
      return undefined;
    }
    const { channel_version, bot_agent } = (body['base_info'] ?? {}) as Json;
    if (typeof channel_version !== 'string' || typeof bot_agent !== 'string') violate(`${path}: base_info`);
    const token = String(headers.authorization).replace(/^Bearer /, '');
    const bot = [...bots.values()].find((one) => one.token === token);
    // A token of before a new login is as dead as any.
    return bot ?? { ...newBot('', token), dead: 'ret' };
  }

  const cursorOf = (seq: number) => Buffer.from(JSON.stringify({ seq })).toString('base64');
  function seqOf(cursor: unknown): number {
    if (cursor === '') return 0;
    try {
      return (JSON.parse(Buffer.from(String(cursor), 'base64').toString()) as { seq: number }).seq;
    } catch {
      return violate(`getupdates: cursor ${String(cursor)}`);
    }
  }

  async function updates(bot: Bot, body: Json, response: ServerResponse): Promise<Json> {
    const seq = seqOf(body['get_updates_buf']);
    for (const list of [cursors, bot.cursors]) list.push(String(body['get_updates_buf']));
    bot.taken = Math.max(bot.taken, seq);
    for (const offer of bot.offers) {
      if (offer.seq > seq && offer.seq > bot.given) continue;
      bot.offers.delete(offer);
      offer.resolve(offer.seq <= seq);
    }
    changed();
    const fresh = () => bot.messages.filter((one) => one.seq > seq);
    if (fresh().length === 0 && !bot.dead) await hold(response, bot.id);
    if (bot.dead) return deadAnswer(bot);
    const messages = fresh();
    bot.given = Math.max(bot.given, messages.at(-1)?.seq ?? 0);
    return {
      ret: 0,
      msgs: messages.map(({ message }) => message),
      get_updates_buf: cursorOf(messages.at(-1)?.seq ?? seq),
      longpolling_timeout_ms: holdMs,
    };
  }

  const deadAnswer = ({ dead }: Bot): Json =>
    dead === 'errcode'
      ? { errcode: -14, errmsg: 'session timeout' }
      : { ret: -14, errmsg: 'session timeout' };

  function sendMessage(bot: Bot, { msg }: Json): Json {
    const message = msg as Json;
    const items = message['item_list'] as Json[];
    const to = String(message['to_user_id']);
    const clientId = message['client_id'] as string;
    if (message['from_user_id'] !== '') violate('sendmessage: from_user_id');
    if (message['message_type'] !== 2 || message['message_state'] !== 2)
      violate('sendmessage: type or state');
    if (items.length !== 1) violate(`sendmessage: ${items.length} items`);
    if (!clientId) violate('sendmessage: no client_id');
    const context = message['context_token'] as string | undefined;
    if (contexts.get(`${bot.id} ${to}`) !== context) violate(`sendmessage: context_token ${context}`);
    const item = items[0] ?? {};
    const sent: FakeSend = { bot: bot.id, to, clientId, context };
    if (item['type'] === 1) {
      sent.text = String((item['text_item'] as Json)['text']);
      if (sent.text.length > 4_000 || sent.text === '') violate(`sendmessage: text of ${sent.text.length}`);
    } else sent.file = readFile(item);
    sends.push(sent);
    changed();
    return { ret: 0, message_id: big(String(FIRST_ID + BigInt(++serial))) };
  }

  function readFile(item: Json): NonNullable<FakeSend['file']> {
    const type = Number(item['type']);
    const one = (item['image_item'] ?? item['video_item'] ?? item['file_item']) as Json;
    const media = one['media'] as Json;
    const param = String(media['encrypt_query_param']);
    const key = Buffer.from(Buffer.from(String(media['aes_key']), 'base64').toString(), 'hex');
    const decipher = createDecipheriv('aes-128-ecb', key, null);
    const bytes = Buffer.concat([decipher.update(files.get(param)!), decipher.final()]);
    if (createHash('md5').update(bytes).digest('hex') !== md5s.get(param))
      violate('sendmessage: md5 of the file');
    const name = one['file_name'];
    return { type, bytes, ...(typeof name === 'string' ? { name } : {}) };
  }

  function uploadUrl(body: Json): Json {
    const { filekey, media_type, rawsize, filesize, aeskey, rawfilemd5, no_need_thumb } = body;
    if (![1, 2, 3].includes(Number(media_type)) || no_need_thumb !== true)
      violate('getuploadurl: media_type');
    if (filesize !== (Math.floor(Number(rawsize) / 16) + 1) * 16) violate('getuploadurl: filesize');
    if (!/^[0-9a-f]{32}$/.test(String(aeskey))) violate('getuploadurl: aeskey');
    uploads.set(String(filekey), { size: Number(filesize), md5: String(rawfilemd5), key: String(aeskey) });
    const param = `up-${String(filekey)}`;
    const query = new URLSearchParams({ encrypted_query_param: param, filekey: String(filekey) });
    return wholeUrls
      ? { ret: 0, upload_full_url: `${url()}/c2c/upload?${query.toString()}` }
      : { ret: 0, upload_param: param };
  }

  async function cdn(request: IncomingMessage, response: ServerResponse, at: URL): Promise<void> {
    const param = at.searchParams.get('encrypted_query_param') ?? '';
    if (at.pathname === '/c2c/download') {
      const file = files.get(param);
      response.writeHead(file ? 200 : 404).end(file);
      return;
    }
    const bytes = await readBody(request);
    const upload = uploads.get(at.searchParams.get('filekey') ?? '');
    if (request.method !== uploadMethod) return void response.writeHead(405).end();
    if (!upload || upload.size !== bytes.length) return void response.writeHead(400).end();
    const id = `file-${++serial}`;
    files.set(id, bytes);
    md5s.set(id, upload.md5);
    response.writeHead(200, { 'x-encrypted-param': id }).end();
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<string | undefined> {
    const at = new URL(request.url ?? '/', 'http://fake');
    const path = at.pathname.replace('/ilink/bot/', '');
    const raw = request.method === 'GET' ? '' : (await readBody(request)).toString();
    const body = (raw === '' ? {} : JSON.parse(raw)) as Json;
    calls.push({ method: request.method ?? '', path, body, at: performance.now() });
    const bot = checkHeaders(request, body, path);
    const next = failures.find((one) => one.left > 0 && one.path === path);
    const failure = next && next.skip-- > 0 ? undefined : next;
    if (failure) failure.left -= 1;
    if (failure?.lost) await route(path, at, body, bot, response);
    if (failure?.lost) return void response.destroy();
    if (failure) {
      const { status, ret, errcode, body: text } = failure;
      if (failure.withoutId) return JSON.stringify({ ret: 0 });
      if (status !== undefined) response.statusCode = status;
      return text ?? JSON.stringify({ ret, errcode, errmsg: 'made to fail' });
    }
    return JSON.stringify(await route(path, at, body, bot, response)).replace(BIG, '$1');
  }

  async function route(
    path: string,
    at: URL,
    body: Json,
    bot: Bot | undefined,
    response: ServerResponse,
  ): Promise<Json> {
    if (path === 'get_bot_qrcode') {
      if (at.searchParams.get('bot_type') !== '3') violate('get_bot_qrcode: bot_type');
      if (!Array.isArray(body['local_token_list'])) violate('get_bot_qrcode: local_token_list');
      const { id, content } = newQr();
      return { ret: 0, qrcode: id, qrcode_img_content: content };
    }
    if (path === 'get_qrcode_status') {
      const qr = qrs.find(({ id }) => id === at.searchParams.get('qrcode'));
      if (!qr) return { ret: -1, errmsg: 'no such code' };
      const code = at.searchParams.get('verify_code');
      if (code !== null) qr.codes.push(code);
      if (code !== null && code === qr.more['code']) qr.status = 'scaned';
      if (qr.status === 'wait') await hold(response);
      const { status } = qr;
      const { code: _code, ...more } = qr.more;
      // Said once; then the next state is waited for.
      if (status === 'scaned' || status === 'scaned_but_redirect')
        Object.assign(qr, { status: 'wait', more: {} });
      if (status === 'confirmed') queueMicrotask(changed);
      qr.heard.add(status);
      return { ret: 0, status, ...more };
    }
    if (!bot) return violate(`no such call: ${path}`);
    if (bot.dead) return deadAnswer(bot);
    const user = String(body['ilink_user_id']);
    switch (path) {
      case 'getupdates':
        return updates(bot, body, response);
      case 'sendmessage':
        return sendMessage(bot, body);
      case 'getuploadurl':
        return uploadUrl(body);
      case 'getconfig':
        return { ret: 0, typing_ticket: Buffer.from(`ticket ${bot.id} ${user}`).toString('base64') };
      case 'sendtyping': {
        const ticket = Buffer.from(`ticket ${bot.id} ${user}`).toString('base64');
        if (body['typing_ticket'] !== ticket) violate('sendtyping: typing_ticket');
        typing.push({ user, status: Number(body['status']), at: performance.now() });
        changed();
        return { ret: 0 };
      }
      default:
        return violate(`no such call: ${path}`);
    }
  }

  function newQr() {
    const id = `qr-${qrs.length + 1}`;
    const qr = {
      id,
      content: `https://liteapp.example/q/${id}`,
      status: 'wait',
      more: {} as Json,
      codes: [] as string[],
      heard: new Set<string>(),
      become(status: string, more: Json = {}) {
        Object.assign(qr, { status, more });
        changed();
      },
      confirm(botId: string) {
        const known = bots.get(botId);
        const token = `secret-token-${++serial}`;
        bots.set(botId, { ...(known ?? newBot(botId, token)), token, dead: undefined });
        qr.become('confirmed', {
          bot_token: token,
          ilink_bot_id: botId,
          baseurl: url(),
          ilink_user_id: 'user-owner',
        });
        return until(() => qr.heard.has('confirmed'));
      },
    };
    qrs.push(qr);
    changed();
    return qr;
  }

  function botOf(id: string): Bot {
    const bot = bots.get(id);
    if (!bot) throw new Error(`${id} is not logged in`);
    return bot;
  }

  function push(botId: string, said: FakeSaid): { bot: Bot; seq: number; id: string } {
    const { from = 'user-ada', text, items, at = Date.now(), more = {} } = said;
    const bot = botOf(botId);
    const seq = ++serial;
    const id = said.id ?? String(FIRST_ID + BigInt(seq));
    contexts.set(`${botId} ${from}`, `context-${seq}`);
    const message = {
      seq,
      message_id: big(id),
      from_user_id: from,
      to_user_id: botId,
      create_time_ms: at,
      message_type: 1,
      message_state: 2,
      context_token: `context-${seq}`,
      item_list: items ?? [{ type: 1, text_item: { text } }],
      ...more,
    };
    bot.messages.push({ seq, message });
    changed();
    return { bot, seq, id };
  }

  const http = createServer((request, response) => {
    const at = new URL(request.url ?? '/', 'http://fake');
    // No call of the protocol: somebody looks whether anybody is here.
    if (request.method === 'HEAD') return void response.writeHead(404).end();
    const work = at.pathname.startsWith('/c2c/')
      ? cdn(request, response, at)
      : answer(request, response).then((text) => {
          if (text === undefined || response.destroyed) return;
          response.setHeader('content-type', JSON_TYPE);
          response.end(text);
        });
    work.catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(400);
      response.end(String(error));
    });
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const url = () => `http://127.0.0.1:${(http.address() as { port: number }).port}`;

  const address = url();
  return {
    url: address,
    violations,
    calls,
    qrs,
    qrHere: newQr,
    sends,
    typing,
    cursors,
    cursorsOf: (botId) => botOf(botId).cursors,
    async qr(after = 0) {
      await until(() => qrs.length > after);
      return qrs.at(-1)!;
    },
    say: (botId, said) => push(botId, said).id,
    offer(botId, said) {
      const { bot, seq } = push(botId, said);
      return new Promise((resolve) => void bot.offers.add({ seq, resolve }));
    },
    pushRaw(botId, message) {
      botOf(botId).messages.push({ seq: ++serial, message });
      changed();
    },
    taken(botId) {
      const bot = bots.get(botId);
      const last = bot?.messages.at(-1)?.seq ?? 0;
      return until(() => (bots.get(botId)?.taken ?? 0) >= last);
    },
    seen(user) {
      const shown = new Map(sends.filter(({ to }) => to === user).map((sent) => [sent.clientId, sent]));
      return [...shown.values()].map(({ text, file }) => text ?? `(${file?.type} ${file?.name ?? ''})`);
    },
    kill(botId, how = 'ret') {
      botOf(botId).dead = how;
      changed();
    },
    fail: (path, failure) =>
      void failures.push({ ...failure, path, left: failure.times ?? 1, skip: failure.after ?? 0 }),
    put(bytes, keyForm = 'raw') {
      const id = `file-${++serial}`;
      const key = randomBytes(16);
      const cipher = createCipheriv('aes-128-ecb', key, null);
      files.set(id, keyForm === 'none' ? bytes : Buffer.concat([cipher.update(bytes), cipher.final()]));
      const keys = { raw: key, hex: Buffer.from(key.toString('hex')), none: Buffer.alloc(0) };
      const query = new URLSearchParams({ encrypted_query_param: id });
      return {
        ...(wholeUrls
          ? { full_url: `${url()}/c2c/download?${query.toString()}` }
          : { encrypt_query_param: id }),
        ...(keyForm === 'none' ? {} : { aes_key: keys[keyForm].toString('base64') }),
      };
    },
    polls: (botId) => [...held].filter(({ bot }) => bot === botId).length,
    connections: () => held.size,
    async close() {
      if (!http.listening) return;
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}
