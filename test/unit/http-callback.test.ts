// The webhook channel's way out: callbacks that the npm package verifies, and what each answer means.
import { Webhook } from 'standardwebhooks';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createWebhookChannel } from '../../channels/webhook/index.ts';
import { parseSecrets } from '../../channels/webhook/verify.ts';
import { configSchema, type WebhookSettings } from '../../config/schema.ts';
import type { Delivery } from '../../src/domain/delivery.ts';
import { systemClock } from '../../src/system-clock.ts';
import { startCallbackReceiver, type CallbackReceiver } from '../fakes/callback-receiver.ts';
import { recordingLog, silentLog } from '../fakes/log.ts';

const SECRETS = ['first', 'other'].map(
  (word) => `whsec_${Buffer.from(word.padEnd(32, '.')).toString('base64')}`,
);

let receiver: CallbackReceiver;
beforeEach(async () => {
  receiver = await startCallbackReceiver();
});
afterEach(() => receiver.close());

function channel(settings: Partial<WebhookSettings> = {}) {
  const config = configSchema.parse({
    channels: { hook: { type: 'webhook', secret: SECRETS, allow_private_callbacks: true, ...settings } },
  });
  const parsed = config.channels['hook'] as WebhookSettings;
  return createWebhookChannel({ account: 'hook', settings: parsed, clock: systemClock, log: silentLog });
}

const delivery = (callback_url: string): Delivery => ({
  id: 'run-1.0',
  conversation: 'hook:c1',
  account: 'hook',
  run: 'run-1',
  messages: ['m1', 'm2'],
  address: { callback_url, id: 'm2' },
  status: 'done',
  reply: { text: 'Grüße, 世界' },
  at: 1,
});
const deliver = (settings?: Partial<WebhookSettings>, url = receiver.url) =>
  channel(settings).deliver(delivery(url), AbortSignal.timeout(5_000));

describe('a callback', () => {
  test('carries the answer, signed with every secret', async () => {
    expect(await deliver()).toEqual({ status: 'sent' });
    const [got] = receiver.received;
    expect(got?.body).toEqual({
      id: 'm2',
      conversation: 'hook:c1',
      status: 'done',
      reply: { text: 'Grüße, 世界' },
      messages: ['m1', 'm2'],
      run: 'run-1',
    });
    expect(got?.headers['webhook-id']).toBe('run-1.0');
    for (const secret of SECRETS)
      expect(new Webhook(secret).verify(got?.raw ?? '', got?.headers as Record<string, string>)).toEqual(
        got?.body,
      );
  });

  test('is unsigned where the account has no secret', async () => {
    expect(await deliver({ secret: '' })).toEqual({ status: 'sent' });
    expect(receiver.received[0]?.headers['webhook-signature']).toBeUndefined();
  });

  test.each([
    [200, { status: 'sent' }],
    [202, { status: 'sent' }],
    [302, { status: 'retry', error: 'the receiver answered 302; redirects are not followed' }],
    [400, { status: 'retry', error: 'the receiver answered 400' }],
    [410, { status: 'park', error: 'the receiver answered 410 Gone' }],
    [503, { status: 'retry', error: 'the receiver answered 503' }],
    [0, { status: 'retry', error: 'the connection failed: ECONNRESET' }],
  ])('answered %i', async (status, result) => {
    receiver.answer(status);
    expect(await deliver()).toEqual(result);
  });

  test('Retry-After is honoured, within reason', async () => {
    for (const [value, ms] of [
      ['7', 7_000],
      ['999999', 3_600_000],
    ] as const) {
      receiver.answer(429, { 'retry-after': value });
      expect(await deliver()).toMatchObject({ status: 'retry', afterMs: ms });
    }
    receiver.answer(503, { 'retry-after': new Date(Date.now() + 30_000).toUTCString() });
    const { afterMs } = (await deliver()) as { afterMs?: number };
    expect(afterMs).toBeGreaterThan(25_000);
    expect(afterMs).toBeLessThanOrEqual(30_000);
    receiver.answer(503, { 'retry-after': 'soon' });
    expect(await deliver()).not.toHaveProperty('afterMs');
  });

  test('a refused URL is parked and says why, without the URL', async () => {
    const result = await deliver({ allow_private_callbacks: false });
    expect(result).toEqual({
      status: 'park',
      error:
        'the callback URL is refused: the address is loopback; allow_private_callbacks lets private ones through',
    });
    expect(receiver.received).toHaveLength(0);
  });

  test('a receiver that does not answer is retried after the time-out', async () => {
    const stuck = delivery(receiver.url);
    const signal = AbortSignal.timeout(30);
    receiver.answer(-1);
    expect(await channel().deliver(stuck, signal)).toEqual({ status: 'retry', error: 'no answer in time' });
  });

  test('an address that is none is parked', async () => {
    const odd = { ...delivery(''), address: {} };
    expect(await channel().deliver(odd, AbortSignal.timeout(1_000))).toMatchObject({ status: 'park' });
  });
});

describe('secrets', () => {
  test.each(['whsec_', 'whsec_not base64!', 'päss'])(
    '"%s" stops the start and names the key, not the secret',
    (text) => {
      expect(() => parseSecrets('hook', text)).toThrow(/^channels\.hook\.secret is not/);
    },
  );

  test('empty ones are none; the prefix and the padding are optional', () => {
    expect(parseSecrets('hook', ['', ''])).toEqual([]);
    expect(parseSecrets('hook', 'AAEC')).toEqual([Buffer.from([0, 1, 2])]);
    expect(parseSecrets('hook', 'whsec_AAE')).toEqual([Buffer.from([0, 1])]);
  });

  test('a short one is warned about', () => {
    const { log, lines } = recordingLog();
    const settings = configSchema.parse({ channels: { hook: { type: 'webhook', secret: 'whsec_AAEC' } } });
    const parsed = settings.channels['hook'] as WebhookSettings;
    createWebhookChannel({ account: 'hook', settings: parsed, clock: systemClock, log });
    expect(lines).toMatchObject([{ level: 'warn', fields: { account: 'hook' } }]);
  });
});
