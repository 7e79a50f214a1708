// Who may talk to a webhook account: an api key or the admin token as a bearer token, checked before the body is read;
// or a signature over the body, checked before it is parsed.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { parseSecrets, verifySignature, type WebhookKey } from '../../channels/webhook/verify.ts';
import type { WebhookSettings } from '../../config/schema.ts';
import { AppError } from '../domain/errors.ts';
import { createGuard, type Guard } from '../net/guard.ts';
import { bearerToken } from './auth.ts';
import { acceptBytes, acceptFiles, parseJson } from './body.ts';
import type { HttpParts } from './parts.ts';

export interface WebhookAccount {
  name: string;
  settings: WebhookSettings;
  keys: readonly WebhookKey[];
  guard: Guard;
}

export const MESSAGES = '/webhook/:account';
export const accountParams = z.object({ account: z.string() });

/** Guards every route of the scope; returns how a route finds its account. `bodies`: JSON, or files as they are. */
export function guardWebhook(
  scope: FastifyInstance,
  { options, auth, messageLimit, now }: HttpParts,
  bodies: 'json' | 'files' = 'json',
): (request: FastifyRequest) => WebhookAccount {
  const { config, channels } = options;
  const accounts = new Map<string, WebhookAccount>();
  for (const [name, settings] of Object.entries(config.channels)) {
    if (settings.type !== 'webhook' || !channels.has(name)) continue;
    const guard = createGuard({ allowPrivate: settings.allow_private_callbacks });
    accounts.set(name, { name, settings, keys: parseSecrets(name, settings.secret), guard });
  }

  function accountOf(request: FastifyRequest): WebhookAccount {
    const { account } = accountParams.parse(request.params);
    const found = accounts.get(account);
    if (!found) throw new AppError('unknown_account', `There is no webhook account "${account}".`);
    return found;
  }

  if (bodies === 'files') acceptFiles(scope, options.media.maxBytes);
  else
    acceptBytes(scope, (request) =>
      Math.min(config.server.body_limit_bytes, accountOf(request).settings.limits.body_bytes),
    );

  scope.addHook('onRequest', async (request) => {
    const account = accountOf(request);
    const token = bearerToken(request);
    if (token !== undefined) {
      if (auth.mayUse(account.name, token)) return;
      throw new AppError('unauthorized', 'The bearer token is no api key of this account.');
    }
    if (account.keys.length > 0 && request.headers['webhook-signature'] !== undefined) return;
    throw new AppError('unauthorized', `This account needs credentials: ${waysIn(account)}.`);
  });

  scope.addHook('preValidation', async (request) => {
    const { name, keys } = accountOf(request);
    const bytes = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
    if (bearerToken(request) === undefined) {
      const signed = {
        id: headerOf(request, 'webhook-id'),
        timestamp: headerOf(request, 'webhook-timestamp'),
        signature: headerOf(request, 'webhook-signature'),
      };
      verifySignature(keys, signed, bytes, now());
    }
    const counts = request.routeOptions.url === MESSAGES || bodies === 'files';
    if (request.method === 'POST' && counts) messageLimit.take(name);
    if (bodies === 'json') request.body = bytes.length === 0 ? undefined : parseJson(bytes);
  });

  return accountOf;
}

/** For a program without credentials: which ones there are, and how an operator makes some. */
function waysIn({ name, keys, settings }: WebhookAccount): string {
  const hasKeys = settings.api_keys.length > 0;
  const ways = [`send "Authorization: Bearer <${hasKeys ? 'api key' : 'admin token'}>"`];
  if (keys.length > 0) ways.push('sign the request (Standard Webhooks)');
  if (keys.length === 0 && !hasKeys) ways.push(`set channels.${name}.secret or channels.${name}.api_keys`);
  return ways.join(', or ');
}

export function headerOf(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** The client's own id of the message. In a signed request only webhook-id is signed. */
export function messageIdOf(request: FastifyRequest): string | undefined {
  const given = headerOf(request, 'webhook-id') ?? headerOf(request, 'idempotency-key');
  // Idempotency-Key is a quoted string in the IETF draft, and a bare one with nearly everybody.
  const id = given?.replace(/^"(.*)"$/, '$1');
  if (id !== undefined && !/^[\x21-\x7e]{1,256}$/.test(id)) {
    const detail = 'webhook-id and Idempotency-Key take 1 to 256 visible ASCII characters.';
    throw new AppError('bad_request', detail);
  }
  return id;
}
