// Webhook signatures, both ways: requests to us are verified, callbacks from us are signed. Standard Webhooks 1.0
// (standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`, the body being the bytes as they came.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { AppError } from '../../src/domain/errors.ts';

const TOLERANCE_SECONDS = 5 * 60;

/** A decoded secret. */
export type WebhookKey = Buffer;

export interface SignedHeaders {
  id: string | undefined;
  /** Seconds since the epoch. */
  timestamp: string | undefined;
  /** `v1,<base64>`, several separated by spaces. */
  signature: string | undefined;
}

/** `whsec_<base64>`, the prefix being optional; several during a rotation. Empty ones are left out. */
export function parseSecrets(account: string, secret: string | readonly string[]): WebhookKey[] {
  const secrets = typeof secret === 'string' ? [secret] : secret;
  return secrets.filter((text) => text !== '').map((text) => parseSecret(account, text));
}

function parseSecret(account: string, text: string): WebhookKey {
  const encoded = text.replace(/^whsec_/, '');
  const key = Buffer.from(encoded, 'base64');
  // Buffer.from skips what isn't base64: only text that comes back the same was base64.
  if (key.length === 0 || key.toString('base64').replace(/=+$/, '') !== encoded.replace(/=+$/, '')) {
    throw new AppError(
      'config_invalid',
      `channels.${account}.secret is not "whsec_" followed by base64 (for example the output of: openssl rand -base64 32)`,
    );
  }
  return key;
}

/** Throws AppError signature_invalid or signature_expired. */
export function verifySignature(
  keys: readonly WebhookKey[],
  headers: SignedHeaders,
  body: Uint8Array,
  nowMs: number,
): void {
  const { id, timestamp, signature } = headers;
  if (!id || !timestamp || !signature) {
    const detail = 'The headers webhook-id, webhook-timestamp and webhook-signature go together.';
    throw new AppError('signature_invalid', detail);
  }
  if (!/^\d{1,12}$/.test(timestamp)) {
    throw new AppError('signature_invalid', 'webhook-timestamp is not a number of seconds since 1970.');
  }
  if (Math.abs(nowMs / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) {
    const detail = `webhook-timestamp differs from the server's clock by more than ${TOLERANCE_SECONDS} seconds.`;
    throw new AppError('signature_expired', detail);
  }
  const given = signature
    .split(' ')
    .filter((part) => part.startsWith('v1,'))
    .map((part) => Buffer.from(part.slice(3), 'base64'));
  const expected = keys.map((key) => digest(key, id, timestamp, body));
  const valid = expected.some((one) => given.some((other) => equal(one, other)));
  if (!valid) throw new AppError('signature_invalid', 'No signature matches the body and a known secret.');
}

/** The headers of a callback, signed with every key, so that a receiver in the middle of a rotation can verify it. */
export function sign(
  keys: readonly WebhookKey[],
  id: string,
  body: Uint8Array | string,
  nowMs: number,
): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1000));
  const signatures = keys.map((key) => `v1,${digest(key, id, timestamp, body).toString('base64')}`);
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    ...(signatures.length === 0 ? {} : { 'webhook-signature': signatures.join(' ') }),
  };
}

function digest(key: WebhookKey, id: string, timestamp: string, body: Uint8Array | string): Buffer {
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
}

const equal = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
