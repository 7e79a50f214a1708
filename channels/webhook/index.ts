// The webhook channel: any program can talk to the bot. verify.ts checks and makes signatures, parse.ts turns a body
// into a message, render.ts turns a delivery into a callback; the HTTP routes are in src/http/webhook.ts.
import type { WebhookSettings } from '../../config/schema.ts';
import type { Delivery } from '../../src/domain/delivery.ts';
import { createGuard, UrlRefused, type GuardedResponse, type ResolvedAddress } from '../../src/net/guard.ts';
import type { Channel, ChannelStatus, DeliveryResult } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import { addressOf, callbackBody } from './render.ts';
import { parseSecrets, sign } from './verify.ts';

export interface WebhookChannelOptions {
  account: string;
  settings: WebhookSettings;
  clock: Pick<Clock, 'now'>;
  log: Logger;
  /** Where this server is reached, for the addresses of files; empty (the default): they are relative. */
  publicUrl?: string;
  /** For tests; default: the system's resolver. */
  resolve?: (hostname: string) => Promise<ResolvedAddress[]>;
}

/** A receiver's answer isn't used: enough to let it finish. */
const MAX_ANSWER_BYTES = 64 * 1024;
/** A receiver may ask for patience, not for eternity. */
const MAX_RETRY_AFTER_MS = 60 * 60 * 1000;

/** Throws AppError config_invalid if a secret is not one. */
export function createWebhookChannel(options: WebhookChannelOptions): Channel {
  const { account, settings, clock, log } = options;
  const keys = parseSecrets(account, settings.secret);
  if (keys.some((key) => key.length < 24)) {
    log.warn({ account }, 'the webhook secret is shorter than 24 bytes; use: openssl rand -base64 32');
  }
  const guard = createGuard({ allowPrivate: settings.allow_private_callbacks, resolve: options.resolve });
  let state: ChannelStatus['state'] = 'stopped';

  return {
    account,
    type: 'webhook',
    async start() {
      state = 'connected';
    },
    async stop() {
      state = 'stopped';
    },
    status: () => ({ state }),
    async deliver(delivery: Delivery, signal: AbortSignal): Promise<DeliveryResult> {
      const target = addressOf(delivery);
      if (!target) return { status: 'park', error: 'the delivery has no callback URL' };
      const body = JSON.stringify(callbackBody(delivery, target.id, options.publicUrl ?? ''));
      try {
        const response = await guard.request(target.callback_url, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            'content-length': String(Buffer.byteLength(body)),
            'user-agent': 'lanekeeper',
            ...sign(keys, delivery.id, body, clock.now()),
          },
          body,
          maxBytes: MAX_ANSWER_BYTES,
          signal,
        });
        return resultOf(response, clock.now());
      } catch (error) {
        if (error instanceof UrlRefused) {
          const hint = settings.allow_private_callbacks
            ? ''
            : '; allow_private_callbacks lets private ones through';
          return { status: 'park', error: `the callback URL is refused: ${error.message}${hint}` };
        }
        return { status: 'retry', error: signal.aborted ? 'no answer in time' : connectionError(error) };
      }
    },
  };
}

/** 2xx settles. 410 Gone: the receiver wants no more of it (Standard Webhooks). Redirects are not followed. */
function resultOf({ status, headers }: GuardedResponse, nowMs: number): DeliveryResult {
  if (status >= 200 && status < 300) return { status: 'sent' };
  if (status === 410) return { status: 'park', error: 'the receiver answered 410 Gone' };
  const redirected = status >= 300 && status < 400 ? '; redirects are not followed' : '';
  const error = `the receiver answered ${status}${redirected}`;
  const afterMs = retryAfterMs(headers['retry-after'], nowMs);
  return { status: 'retry', error, ...(afterMs === undefined ? {} : { afterMs }) };
}

/** Seconds or a date (RFC 9110). */
function retryAfterMs(value: string | undefined, nowMs: number): number | undefined {
  if (value === undefined) return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS) : undefined;
}

/** The system's code only: messages can hold the host, and it may be a secret. */
function connectionError(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? `the connection failed: ${code}` : 'the connection failed';
}
