// Secrets are compared in constant time: each check of a credential goes through timingSafeEqual, for the right one and for one that
// differs in one character.
import crypto, { createCipheriv, createHash } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createReceiver } from '../../channels/feishu/webhook.ts';
import { parseSecrets, sign, verifySignature } from '../../channels/webhook/verify.ts';
import { createAuth } from '../../src/http/auth.ts';
import { createWebSessions } from '../../src/http/web-session.ts';
import { silentLog } from '../fakes/log.ts';

const compare = vi.spyOn(crypto, 'timingSafeEqual');
beforeAll(() => syncBuiltinESMExports());
afterAll(() => {
  compare.mockRestore();
  syncBuiltinESMExports();
});

const NOW = Date.UTC(2026, 10, 30);
/** Not the last one: of base64 it may be padding. */
const other = (text: string) => text.slice(0, -4) + (text.at(-4) === 'a' ? 'b' : 'a') + text.slice(-3);

const auth = createAuth({
  adminToken: 'an-admin-token',
  apiKeys: new Map([['acc', ['a-key']]]),
  now: () => NOW,
});
const web = createWebSessions({ adminToken: '', apiKeys: new Map([['acc', ['a-key']]]), now: () => NOW });
const keys = parseSecrets('acc', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
const body = Buffer.from('{}');
const headers = sign(keys, 'm1', body, NOW);
const signed = (signature: string) => {
  verifySignature(keys, { id: 'm1', timestamp: headers['webhook-timestamp'], signature }, body, NOW);
  return true;
};

/** One that feishu's platform would send. */
const feishu = (encrypt_key: string) =>
  createReceiver({
    settings: { app_id: 'cli_a', encrypt_key, verification_token: 'a-token' },
    handlers: {},
    log: silentLog,
    now: () => NOW,
  });
const challenge = (token: string) =>
  Buffer.from(JSON.stringify({ type: 'url_verification', challenge: 'c', token }));
const key = createHash('sha256').update('an-encrypt-key').digest();
const cipher = createCipheriv('aes-256-cbc', key, Buffer.alloc(16));
const encrypted = [Buffer.alloc(16), cipher.update(challenge('a-token')), cipher.final()];
const sealed = Buffer.from(JSON.stringify({ encrypt: Buffer.concat(encrypted).toString('base64') }));
const stamp = { 'x-lark-request-timestamp': String(NOW / 1000), 'x-lark-request-nonce': 'n' };
const larkSignature = createHash('sha256')
  .update(`${NOW / 1000}nan-encrypt-key`)
  .update(sealed)
  .digest('hex');

test.each<[string, string, (given: string) => unknown]>([
  ['the admin token', 'an-admin-token', (given) => auth.isAdmin(given)],
  ['an api key', 'a-key', (given) => auth.mayUse('acc', given)],
  ['the console’s cookie', auth.newSession(), (given) => auth.isSession(given)],
  ['a key for the page', 'a-key', (given) => web.open(given)],
  ['the page’s cookie', web.open('a-key')!, (given) => web.opens('acc', given)],
  ['a webhook’s signature', headers['webhook-signature'] ?? '', signed],
  ['Feishu’s token', 'a-token', (given) => feishu('')({ headers: {}, body: challenge(given) })],
  [
    'Feishu’s signature',
    larkSignature,
    (given) => feishu('an-encrypt-key')({ headers: { ...stamp, 'x-lark-signature': given }, body: sealed }),
  ],
])('%s', async (_name, right, check) => {
  for (const given of [right, other(right)]) {
    compare.mockClear();
    await Promise.resolve()
      .then(() => check(given))
      .catch(() => undefined);
    expect(compare).toHaveBeenCalled();
  }
});
