// Webhook mode: what is posted to /channels/<account>/events, after checking that it comes from the platform. Everything here is
// from outside until it is checked: size, signature over the raw bytes, age, replays, decryption, token.
// https://open.feishu.cn/document/event-subscription-guide/event-subscriptions/event-subscription-configure-/encrypt-key-encryption-configuration-case
import { createDecipheriv, createHash, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { FeishuSettings } from '../../config/schema.ts';
import type { PushAnswer, PushRequest } from '../../src/ports/channel.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { EventHandlers } from './inbound.ts';

export interface ReceiverOptions {
  settings: Pick<FeishuSettings, 'app_id' | 'encrypt_key' | 'verification_token'>;
  handlers: EventHandlers;
  log: Logger;
  now: () => number;
}

const TOLERANCE_MS = 5 * 60 * 1000;
const MAX_NONCES = 10_000;

const bodySchema = z.looseObject({
  encrypt: z.string().optional(),
  type: z.string().optional(),
  challenge: z.string().optional(),
  token: z.string().optional(),
  header: z
    .looseObject({ event_type: z.string(), token: z.string().optional(), app_id: z.string().optional() })
    .optional(),
  event: z.unknown().optional(),
});
type Body = z.infer<typeof bodySchema>;

const refuse = (status: number, msg: string): PushAnswer => ({ status, body: { code: status, msg } });

export function createReceiver({ settings, handlers, log, now }: ReceiverOptions) {
  const { app_id, encrypt_key, verification_token } = settings;
  /** Signatures that were taken within the tolerance, to refuse their replay. */
  const taken = new Map<string, number>();

  function signatureProblem(headers: PushRequest['headers'], body: Uint8Array): string | undefined {
    const timestamp = headers['x-lark-request-timestamp'] ?? '';
    const nonce = headers['x-lark-request-nonce'] ?? '';
    const given = headers['x-lark-signature'] ?? '';
    if (!/^\d{1,12}$/.test(timestamp) || given === '') return 'unsigned';
    if (Math.abs(now() - Number(timestamp) * 1000) > TOLERANCE_MS) return 'too old';
    const expected = createHash('sha256')
      .update(`${timestamp}${nonce}${encrypt_key}`)
      .update(body)
      .digest('hex');
    return same(expected, given.toLowerCase()) ? undefined : 'wrong signature';
  }

  function isReplay(signature: string): boolean {
    for (const [old, until] of taken) {
      if (until > now() && taken.size < MAX_NONCES) break;
      taken.delete(old);
    }
    return taken.has(signature);
  }

  /** The body in clear, or why not. */
  function open(bytes: Uint8Array): Body | string {
    const outer = read(Buffer.from(bytes).toString('utf8'));
    if (!outer) return 'not an event';
    if (outer.encrypt === undefined) return encrypt_key === '' ? outer : 'not encrypted';
    if (encrypt_key === '') return 'encrypted, but encrypt_key is not set';
    const clear = decrypt(outer.encrypt, encrypt_key);
    return (clear === undefined ? undefined : read(clear)) ?? 'cannot be decrypted';
  }

  /** Why is told to the operator only: different answers would tell a stranger whether a guess could be decrypted. */
  function refused(reason: string): PushAnswer {
    log.warn({ reason }, 'a request for events was refused; compare encrypt_key and verification_token');
    return { status: 401, body: { code: 401, msg: 'refused' } };
  }

  return async ({ headers, body }: PushRequest): Promise<PushAnswer> => {
    const opened = open(body);
    if (typeof opened === 'string') return refused(opened);
    const token = opened.header?.token ?? opened.token ?? '';
    if (verification_token !== '' && !same(verification_token, token)) return refused('wrong token');
    if (encrypt_key !== '') {
      // The address check of the developer console comes without a signature: it was encrypted with the key.
      const isCheck = opened.type === 'url_verification';
      const problem = isCheck ? undefined : signatureProblem(headers, body);
      if (problem !== undefined) return refused(problem);
    }
    if (opened.type === 'url_verification') {
      if (opened.challenge === undefined) return refuse(400, 'no challenge');
      return { status: 200, body: { challenge: opened.challenge } };
    }
    const { header, event } = opened;
    // A server of several accounts: an event belongs to one of them, whatever address it was posted to.
    if (header?.app_id !== undefined && header.app_id !== app_id) return refused('of another app');
    if (!header || typeof event !== 'object' || event === null) return refuse(400, 'not an event');
    const signature = headers['x-lark-signature'] ?? '';
    // Told that all is well: whoever replays learns nothing, and the platform never repeats a signature.
    if (encrypt_key !== '' && isReplay(signature)) return { status: 200, body: {} };
    try {
      await handlers[header.event_type]?.({ ...header, ...event });
    } catch {
      // Reported by the handler. The platform sends the event again.
      return refuse(503, 'not taken; send it again');
    }
    if (encrypt_key !== '') taken.set(signature, now() + TOLERANCE_MS * 2);
    return { status: 200, body: {} };
  };
}

function read(text: string): Body | undefined {
  try {
    return bodySchema.safeParse(JSON.parse(text)).data;
  } catch {
    // Not JSON: refused by the caller.
    return undefined;
  }
}

/** AES-256-CBC; the key is the SHA-256 of the encrypt key, the first block the initialisation vector. */
function decrypt(encrypted: string, key: string): string | undefined {
  const bytes = Buffer.from(encrypted, 'base64');
  try {
    const decipher = createDecipheriv(
      'aes-256-cbc',
      createHash('sha256').update(key).digest(),
      bytes.subarray(0, 16),
    );
    return Buffer.concat([decipher.update(bytes.subarray(16)), decipher.final()]).toString('utf8');
  } catch {
    // Garbage, or another key: refused by the caller.
    return undefined;
  }
}

function same(a: string, b: string): boolean {
  const [left, right] = [a, b].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(left!, right!);
}
