// What the bot does on iLink, in our words: each method is one call, but for files, which also go over the CDN. Methods reject
// with WeixinError. Protocol: https://github.com/Tencent/openclaw-weixin/blob/main/docs/protocol.md
import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { decrypt, encrypt, encryptedSize, writeKey } from './crypto.ts';
import { WeixinError } from './errors.ts';
import { exchange, request } from './http.ts';

/** A bot that is logged in; `userId` is who scanned the code. */
export type Login = { token: string; baseUrl: string; botId: string; userId: string };

const PLAIN = [
  'wait',
  'scaned',
  'expired',
  'need_verifycode',
  'verify_code_blocked',
  'binded_redirect',
] as const;
export type QrStatus =
  | { status: (typeof PLAIN)[number] }
  | { status: 'scaned_but_redirect'; baseUrl: string }
  | { status: 'confirmed'; login: Login };

/** Messages as they came, and how long the next poll is held. */
export type Updates = { messages: unknown[]; cursor: string; holdMs: number };

/** One of a message's parts, as the platform takes it. */
export type Item = { type: number } & Record<string, unknown>;

export interface WeixinApi {
  qrCode(signal: AbortSignal): Promise<{ id: string; content: string }>;
  /** Held by the platform; one that takes too long says `wait`. `code`: what the phone shows, if it was asked for. */
  qrStatus(baseUrl: string, id: string, code: string | undefined, signal: AbortSignal): Promise<QrStatus>;
  /** Held until something comes; one that takes too long brings nothing. */
  updates(login: Login, cursor: string, holdMs: number, signal: AbortSignal): Promise<Updates>;
  send(login: Login, message: Outgoing, signal: AbortSignal): Promise<void>;
  /** Undefined: there is no typing for this person. */
  typingTicket(login: Login, to: string, context: Context, signal: AbortSignal): Promise<string | undefined>;
  typing(login: Login, to: string, ticket: string, on: boolean, signal: AbortSignal): Promise<void>;
  /** Puts a file on the CDN, encrypted: the item that shows it. */
  upload(login: Login, to: string, file: Upload, signal: AbortSignal): Promise<Item>;
  download(file: CdnFile, maxBytes: number, signal: AbortSignal): Promise<Buffer>;
}

/** The newest context token that came from a person. */
export type Context = string | undefined;
export type Outgoing = { to: string; clientId: string; item: Item; context: Context };
export type Upload = { kind: 'image' | 'video' | 'file'; bytes: Uint8Array; name: string };

/** Its whole address, or the parameter of a download; without a key it is not encrypted. */
export type CdnFile = { url?: string | undefined; param?: string | undefined; key?: Buffer | undefined };

/** `marginMs`: what is waited beyond the time that the platform holds a poll. */
export type ApiOptions = { baseUrl: string; cdnUrl: string; marginMs?: number };

export const HOLD_MS = 35_000;
const MARGIN_MS = 10_000;
const CALL_MS = 15_000;
const TYPING_MS = 10_000;
const CDN_MS = 60_000;
const MAX_HOLD_MS = 240_000;
const UPLOAD_TYPES = { image: 1, video: 2, file: 3 };
/** Tencent's client POSTs; where only the PUT of older descriptions is known, that is tried. */
const WRONG_METHOD = new Set([404, 405, 501]);

const text = z.string().min(1);
const words = z.string().nullish();
const qrSchema = z.object({ qrcode: text, qrcode_img_content: text });
const statusSchema = z.object({
  status: z.string(),
  bot_token: words,
  ilink_bot_id: words,
  ilink_user_id: words,
  baseurl: words,
  redirect_host: words,
});
const updatesSchema = z.object({
  msgs: z.array(z.unknown()).nullish(),
  get_updates_buf: words,
  longpolling_timeout_ms: z.number().positive().nullish(),
});
const sentSchema = z.object({ message_id: z.union([text, z.number()]) });
const configSchema = z.object({ typing_ticket: words });
const uploadSchema = z.object({ upload_full_url: words, upload_param: words });

export function createApi({ baseUrl, cdnUrl, marginMs = MARGIN_MS }: ApiOptions): WeixinApi {
  /** An address that the platform names: never a less protected one than the one we know it by. */
  function trusted(address: string): string {
    const url = URL.parse(
      /^https?:\/\//.test(address) ? address : `${new URL(baseUrl).protocol}//${address}`,
    );
    if (!url || (url.protocol !== 'https:' && !baseUrl.startsWith('http:')))
      throw new WeixinError('refused', 'WeChat named an address that is not safe');
    return url.href.replace(/\/$/, '');
  }

  const as =
    (login: Login, signal: AbortSignal, timeoutMs = CALL_MS) =>
    async <T>(schema: z.ZodType<T>, path: string, body: Record<string, unknown>): Promise<T> => {
      const url = `${login.baseUrl}/ilink/bot/${path}`;
      return read(schema, await exchange({ url, body, token: login.token, timeoutMs, signal }));
    };

  function statusOf(answer: z.infer<typeof statusSchema>, asked: string): QrStatus {
    const { status, bot_token: token, ilink_bot_id: botId, ilink_user_id } = answer;
    switch (status) {
      case 'confirmed':
        if (!token || !botId)
          throw new WeixinError('refused', 'WeChat confirmed the login without saying whose it is');
        return {
          status,
          login: {
            token,
            botId,
            userId: ilink_user_id ?? '',
            baseUrl: answer.baseurl ? trusted(answer.baseurl) : asked,
          },
        };
      case 'scaned_but_redirect':
        return { status, baseUrl: answer.redirect_host ? trusted(answer.redirect_host) : asked };
      default:
        return { status: PLAIN.find((known) => known === status) ?? 'wait' };
    }
  }

  async function put(url: string, bytes: Buffer, signal: AbortSignal): Promise<string> {
    for (const method of ['POST', 'PUT']) {
      const headers = { 'content-type': 'application/octet-stream' };
      const body = new Uint8Array(bytes);
      const { response } = await request(url, { method, headers, body }, 65_536, CDN_MS, signal);
      const param = response.headers.get('x-encrypted-param');
      if (response.ok && param) return param;
      if (!WRONG_METHOD.has(response.status))
        throw new WeixinError('away', `the CDN did not take the file (HTTP ${response.status})`);
    }
    throw new WeixinError('refused', 'the CDN takes no file at the address that WeChat named');
  }

  return {
    async qrCode(signal) {
      const url = `${baseUrl}/ilink/bot/get_bot_qrcode?bot_type=3`;
      const answer = await exchange({ url, body: { local_token_list: [] }, timeoutMs: CALL_MS, signal });
      const { qrcode, qrcode_img_content } = read(qrSchema, answer);
      return { id: qrcode, content: qrcode_img_content };
    },
    async qrStatus(asked, id, code, signal) {
      const query = new URLSearchParams({ qrcode: id, ...(code === undefined ? {} : { verify_code: code }) });
      const url = `${asked}/ilink/bot/get_qrcode_status?${query.toString()}`;
      const answer = await orLate(exchange({ url, timeoutMs: HOLD_MS + marginMs, signal }), {
        status: 'wait',
      });
      return statusOf(read(statusSchema, answer), asked);
    },
    async updates(login, cursor, holdMs, signal) {
      const body = { get_updates_buf: cursor };
      const patienceMs = Math.min(holdMs, MAX_HOLD_MS) + marginMs;
      const answer = await orLate(as(login, signal, patienceMs)(updatesSchema, 'getupdates', body), {});
      return {
        messages: answer.msgs ?? [],
        cursor: answer.get_updates_buf || cursor,
        holdMs: answer.longpolling_timeout_ms ?? holdMs,
      };
    },
    async send(login, { to, clientId, item, context }, signal) {
      const msg = {
        from_user_id: '',
        to_user_id: to,
        client_id: clientId,
        message_type: 2,
        message_state: 2,
        item_list: [item],
        ...(context === undefined ? {} : { context_token: context }),
      };
      const answer = await as(login, signal)(z.unknown(), 'sendmessage', { msg });
      // Success without an id: nobody has got it.
      if (!sentSchema.safeParse(answer).success)
        throw new WeixinError('undelivered', 'WeChat took the message and did not deliver it');
    },
    async typingTicket(login, to, context, signal) {
      const body = { ilink_user_id: to, ...(context === undefined ? {} : { context_token: context }) };
      return (await as(login, signal, TYPING_MS)(configSchema, 'getconfig', body)).typing_ticket || undefined;
    },
    async typing(login, to, ticket, on, signal) {
      const body = { ilink_user_id: to, typing_ticket: ticket, status: on ? 1 : 2 };
      await as(login, signal, TYPING_MS)(z.unknown(), 'sendtyping', body);
    },
    async upload(login, to, { kind, bytes, name }, signal) {
      const key = randomBytes(16);
      const filekey = randomBytes(16).toString('hex');
      const filesize = encryptedSize(bytes.length);
      const body = {
        filekey,
        media_type: UPLOAD_TYPES[kind],
        to_user_id: to,
        rawsize: bytes.length,
        rawfilemd5: createHash('md5').update(bytes).digest('hex'),
        filesize,
        no_need_thumb: true,
        aeskey: key.toString('hex'),
      };
      const answer = await as(login, signal)(uploadSchema, 'getuploadurl', body);
      const query = new URLSearchParams({ encrypted_query_param: answer.upload_param ?? '', filekey });
      const url = answer.upload_full_url
        ? trusted(answer.upload_full_url)
        : `${cdnUrl}/upload?${query.toString()}`;
      const param = await put(url, encrypt(bytes, key), signal);
      const media = { encrypt_query_param: param, aes_key: writeKey(key), encrypt_type: 1 };
      if (kind === 'image') return { type: 2, image_item: { media, mid_size: filesize } };
      if (kind === 'video') return { type: 5, video_item: { media, video_size: filesize } };
      return { type: 4, file_item: { media, file_name: name, len: String(bytes.length) } };
    },
    async download({ url, param, key }, maxBytes, signal) {
      const query = new URLSearchParams({ encrypted_query_param: param ?? '' });
      const from = url ? trusted(url) : `${cdnUrl}/download?${query.toString()}`;
      const { response, bytes } = await request(from, {}, maxBytes + 16, CDN_MS, signal);
      if (!response.ok) throw new WeixinError('away', `the CDN answered HTTP ${response.status}`);
      if (!key) return bytes;
      try {
        return decrypt(bytes, key);
      } catch {
        throw new WeixinError('refused', 'the file does not fit its key');
      }
    },
  };
}

/** A long poll that took too long brought nothing. */
function orLate<T>(work: Promise<T>, nothing: T): Promise<T> {
  return work.catch((error: unknown) => {
    if (error instanceof WeixinError && error.late) return nothing;
    throw error;
  });
}

function read<T>(schema: z.ZodType<T>, answer: unknown): T {
  const { data, error } = schema.safeParse(answer);
  if (error) throw new WeixinError('away', 'WeChat answered in an unknown shape');
  return data;
}
