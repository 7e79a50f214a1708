// Feishu's webhook mode: what the platform sends is taken, and what anybody else sends is not.
import { createCipheriv, createHash, randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createReceiver } from '../../channels/feishu/webhook.ts';
import { APP_ID, messageEvent, OTHER_APP } from '../fakes/feishu-server.ts';
import { silentLog } from '../fakes/log.ts';

const KEY = 'an-encrypt-key';
const TOKEN = 'verification-token';
const NOW = Date.UTC(2026, 10, 30);

function encrypt(value: unknown, key = KEY): string {
  const iv = randomBytes(16);
  const cipher = createCipheriv('aes-256-cbc', createHash('sha256').update(key).digest(), iv);
  const data = Buffer.concat([iv, cipher.update(JSON.stringify(value)), cipher.final()]);
  return JSON.stringify({ encrypt: data.toString('base64') });
}

function sign(body: string, { key = KEY, atMs = NOW } = {}): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const nonce = randomBytes(8).toString('hex');
  const signature = createHash('sha256').update(`${timestamp}${nonce}${key}${body}`).digest('hex');
  return {
    'x-lark-request-timestamp': timestamp,
    'x-lark-request-nonce': nonce,
    'x-lark-signature': signature,
  };
}

function setUp(settings = { encrypt_key: KEY, verification_token: TOKEN }) {
  const received: unknown[] = [];
  const state = { fails: false };
  const receive = createReceiver({
    settings: { app_id: APP_ID, ...settings },
    handlers: {
      'im.message.receive_v1': async (event) => {
        if (state.fails) throw new Error('storage away');
        received.push(event);
      },
    },
    log: silentLog,
    now: () => NOW,
  });
  return {
    received,
    state,
    post: (body: string, headers: Record<string, string> = {}) =>
      receive({ headers, body: Buffer.from(body) }),
  };
}

describe('the events address', () => {
  test('takes a signed and encrypted event, once', async () => {
    const { received, post } = setUp();
    const body = encrypt(messageEvent({ id: 'om_1', text: 'hi' }));
    const headers = sign(body);
    expect(await post(body, headers)).toEqual({ status: 200, body: {} });
    expect(received).toMatchObject([{ message: { message_id: 'om_1' } }]);
    // A replay of the very request.
    expect(await post(body, headers)).toEqual({ status: 200, body: {} });
    expect(received).toHaveLength(1);
  });

  test('asks for the event again if it could not be taken', async () => {
    const { received, state, post } = setUp();
    const body = encrypt(messageEvent());
    const headers = sign(body);
    state.fails = true;
    expect((await post(body, headers)).status).toBe(503);
    state.fails = false;
    expect((await post(body, headers)).status).toBe(200);
    expect(received).toHaveLength(1);
  });

  test('answers the console’s check of the address, encrypted or not', async () => {
    const check = { type: 'url_verification', challenge: 'c-1', token: TOKEN };
    expect(await setUp().post(encrypt(check))).toEqual({ status: 200, body: { challenge: 'c-1' } });
    const plain = setUp({ encrypt_key: '', verification_token: TOKEN });
    expect(await plain.post(JSON.stringify(check))).toEqual({ status: 200, body: { challenge: 'c-1' } });
    expect((await plain.post(JSON.stringify({ ...check, token: 'guess' }))).status).toBe(401);
  });

  test('without an encrypt key, the token decides', async () => {
    const { received, post } = setUp({ encrypt_key: '', verification_token: TOKEN });
    const event = messageEvent();
    expect((await post(JSON.stringify(event))).status).toBe(200);
    const header = { ...(event['header'] as object), token: 'guess' };
    expect((await post(JSON.stringify({ ...event, header }))).status).toBe(401);
    expect(received).toHaveLength(1);
  });

  const event = messageEvent({ text: 'attack' });
  const good = encrypt(event);
  const wrongToken = encrypt({ ...event, header: { ...(event['header'] as object), token: 'guess' } });
  const garbage = JSON.stringify({ encrypt: randomBytes(64).toString('base64') });
  const short = JSON.stringify({ encrypt: 'AAAA' });
  const otherKey = encrypt(event, 'another-key');
  const otherApp = encrypt(messageEvent({ app: OTHER_APP.id, text: 'attack' }));
  test.each([
    ['unsigned', good, {}],
    ['signed with another key', good, sign(good, { key: 'another-key' })],
    ['signed for another body', good, sign(otherKey)],
    ['signed too long ago', good, sign(good, { atMs: NOW - 6 * 60_000 })],
    ['signed in the future', good, sign(good, { atMs: NOW + 6 * 60_000 })],
    ['a timestamp that is none', good, { ...sign(good), 'x-lark-request-timestamp': 'NaN' }],
    ['an event of another app', otherApp, sign(otherApp)],
    ['a wrong token', wrongToken, sign(wrongToken)],
    ['in clear, though a key is set', JSON.stringify(event), sign(JSON.stringify(event))],
    ['garbage for a ciphertext', garbage, sign(garbage)],
    ['too little for a ciphertext', short, sign(short)],
    ['encrypted with another key', otherKey, sign(otherKey)],
    ['not JSON', '{', sign('{')],
    ['empty', '', {}],
    ['a list', '[]', sign('[]')],
    ['encrypt is no text', '{"encrypt":{"a":1}}', {}],
  ])('refuses: %s; all refusals look the same', async (_name, body, headers) => {
    const { received, post } = setUp();
    expect(await post(body, headers)).toEqual({ status: 401, body: { code: 401, msg: 'refused' } });
    expect(received).toEqual([]);
  });
});

test('whatever is posted, and however a good request is changed, nothing gets through and nothing is thrown', async () => {
  const { received, post } = setUp();
  const body = encrypt(messageEvent({ text: 'attack' }));
  const headers = sign(body);
  const anything = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .uint8Array({ maxLength: 200 })
      .map((bytes) => JSON.stringify({ encrypt: Buffer.from(bytes).toString('base64') })),
    fc
      .nat(body.length - 1)
      .map((at) => `${body.slice(0, at)}${body[at] === 'A' ? 'B' : 'A'}${body.slice(at + 1)}`),
    fc.nat(body.length - 1).map((at) => body.slice(0, at)),
  );
  const someHeaders = fc.oneof(
    fc.constant(headers),
    fc.constant({}),
    fc.dictionary(fc.string(), fc.string()),
  );
  await fc.assert(
    fc.asyncProperty(anything, someHeaders, async (text, given) => {
      fc.pre(text !== body);
      expect((await post(text, given)).status).toBe(401);
    }),
    { numRuns: 300 },
  );
  expect(received).toEqual([]);
  expect((await post(body, headers)).status).toBe(200);
  expect(received).toHaveLength(1);
});
