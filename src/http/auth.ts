// Who may do what: api keys of webhook accounts, the admin token, and the console's session cookie. Every comparison
// takes the same time whatever it compares; tokens are compared by hash, so that their lengths don't show either.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { AppError } from '../domain/errors.ts';

export const SESSION_COOKIE = 'lanekeeper_session';
export const SESSION_SECONDS = 12 * 60 * 60;

export interface AuthOptions {
  /** Empty: nobody is the administrator. */
  adminToken: string;
  /** Api keys by account. */
  apiKeys: ReadonlyMap<string, readonly string[]>;
  now: () => number;
}

export interface Auth {
  isAdmin(token: string): boolean;
  /** The token is one of this account's api keys, or the admin token. */
  mayUse(account: string, token: string): boolean;
  /** The account that an api key belongs to; the first one for the admin token. */
  accountOf(token: string): string | undefined;
  /** The console's cookie value: no state on the server, valid in every process that has the same admin token. */
  newSession(): string;
  isSession(value: string): boolean;
  /** Throws unauthorized unless the request carries the admin token or a session. */
  requireAdmin(request: FastifyRequest): void;
}

export function createAuth({ adminToken, apiKeys, now }: AuthOptions): Auth {
  const admin = adminToken === '' ? undefined : hash(adminToken);
  const sessionKey = createHmac('sha256', adminToken).update('console session').digest();
  const accounts = [...apiKeys].map(([account, keys]) => ({
    account,
    keys: hashesOf(keys),
  }));

  const isAdmin = (token: string): boolean => admin !== undefined && timingSafeEqual(admin, hash(token));
  const seal = (expires: string): Buffer => createHmac('sha256', sessionKey).update(expires).digest();

  const isSession = (value: string): boolean => {
    const [expires = '', mac = ''] = value.split('.');
    const given = Buffer.from(mac, 'base64url');
    const expected = seal(expires);
    return (
      admin !== undefined &&
      given.length === expected.length &&
      timingSafeEqual(given, expected) &&
      Number(expires) * 1000 > now()
    );
  };

  return {
    isAdmin,
    isSession,
    mayUse: (account, token) =>
      holds(accounts.find((entry) => entry.account === account)?.keys ?? [], token) || isAdmin(token),
    accountOf(token) {
      const owner = accounts.find(({ keys }) => holds(keys, token));
      return owner?.account ?? (isAdmin(token) ? accounts[0]?.account : undefined);
    },
    newSession() {
      const expires = String(Math.floor(now() / 1000) + SESSION_SECONDS);
      return `${expires}.${seal(expires).toString('base64url')}`;
    },
    requireAdmin(request) {
      const token = bearerToken(request);
      if (token !== undefined) {
        if (isAdmin(token)) return;
        throw new AppError('unauthorized', 'The bearer token is not the admin token.');
      }
      const session = request.cookies[SESSION_COOKIE];
      if (session === undefined || !isSession(session)) {
        const detail = 'Send "Authorization: Bearer <admin token>", or sign in at /console.';
        throw new AppError('unauthorized', detail);
      }
      refuseCrossSite(request);
    },
  };
}

/** Takes as long whichever key it is, or none. */
export function holds(keys: readonly Buffer[], token: string): boolean {
  const given = hash(token);
  // No early exit: which key matched doesn't show either.
  return keys.reduce((found, key) => timingSafeEqual(key, given) || found, false);
}

/** The token of `Authorization: Bearer <token>`; undefined without such a header. */
export function bearerToken(request: FastifyRequest): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1];
}

/**
 * A cookie travels with whatever page asks. SameSite=Strict keeps other sites out, but another port of the same host is
 * the same site: so anything that changes something must come from our own origin.
 */
export function refuseCrossSite(request: FastifyRequest): void {
  if (request.method === 'GET' || request.method === 'HEAD') return;
  const site = request.headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin')
    throw new AppError('forbidden', 'The request comes from another origin.');
  const { origin } = request.headers;
  if (origin !== undefined && URL.parse(origin)?.host !== request.headers.host)
    throw new AppError('forbidden', 'The request comes from another origin.');
}

/** Keys ready to be compared; an empty one opens nothing. */
export const hashesOf = (keys: readonly string[]): Buffer[] => keys.filter((key) => key !== '').map(hash);

const hash = (token: string): Buffer => createHash('sha256').update(token).digest();
