// Who may use the chat page's routes. On loopback anybody, as long as it is our own page that asks: names that other sites
// could point at this machine (DNS rebinding) are refused. Beyond loopback, or with api keys configured, a key is needed.
import type { FastifyRequest } from 'fastify';
import type { WebSettings } from '../../config/schema.ts';
import { AppError } from '../domain/errors.ts';
import { bearerToken, hashesOf, holds, refuseCrossSite, SESSION_COOKIE } from './auth.ts';
import type { HttpParts } from './parts.ts';
import { createWebSessions, WEB_COOKIE, type WebSessions } from './web-session.ts';

export interface WebAccess {
  /** Enabled accounts, in the order of the configuration. */
  accounts: readonly string[];
  sessions: WebSessions;
  keyRequired(account: string): boolean;
  /** The request needs no key, or carries one. */
  mayUse(account: string, request: FastifyRequest): boolean;
  /** Throws unknown_account, unauthorized or forbidden. */
  check(account: string, request: FastifyRequest): void;
  /** Throws forbidden if the request comes by a name or from a page that isn't ours. */
  checkOrigin(request: FastifyRequest): void;
}

export function createWebAccess({ options, auth, now }: HttpParts): WebAccess {
  const { config, channels, adminToken } = options;
  const { host, public_url } = config.server;
  const publicHost = public_url === '' ? undefined : URL.parse(public_url)?.host;
  const open = !isLoopback(host) || (publicHost !== undefined && !isLoopback(nameOf(publicHost)));
  const accounts = new Map<string, WebSettings>();
  for (const [name, settings] of Object.entries(config.channels))
    if (settings.type === 'web' && channels.has(name)) accounts.set(name, settings);
  const apiKeys = new Map([...accounts].map(([name, settings]) => [name, settings.api_keys]));
  const hashes = new Map([...apiKeys].map(([name, keys]) => [name, hashesOf(keys)]));
  const sessions = createWebSessions({ apiKeys, adminToken, now });

  const keyRequired = (account: string): boolean => open || (apiKeys.get(account)?.length ?? 0) > 0;

  function mayUse(account: string, request: FastifyRequest): boolean {
    if (!keyRequired(account)) return true;
    const token = bearerToken(request);
    if (token !== undefined) return auth.isAdmin(token) || holds(hashes.get(account) ?? [], token);
    const cookie = request.cookies[WEB_COOKIE];
    if (cookie !== undefined && sessions.opens(account, cookie)) return true;
    // Who is signed in at the console needs no second key.
    const console = request.cookies[SESSION_COOKIE];
    return console !== undefined && auth.isSession(console);
  }

  function checkOrigin(request: FastifyRequest): void {
    // A cookie is bound to its host, so a foreign name brings none: only where no cookie is asked for does the name matter.
    const named = request.headers.host ?? '';
    if (!open && !isLoopback(nameOf(named)) && named !== publicHost) {
      const detail =
        'This server answers to localhost only; set server.public_url to reach it by another name.';
      throw new AppError('forbidden', detail);
    }
    refuseCrossSite(request);
  }

  return {
    accounts: [...accounts.keys()],
    sessions,
    keyRequired,
    mayUse,
    checkOrigin,
    check(account, request) {
      if (!accounts.has(account))
        throw new AppError('unknown_account', `There is no web account "${account}".`);
      checkOrigin(request);
      if (!mayUse(account, request))
        throw new AppError('unauthorized', 'Enter the key on the chat page first.');
    },
  };
}

/** The name in a Host header. */
const nameOf = (host: string): string => host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');

/** `*.localhost` never leaves the machine (RFC 6761). */
const isLoopback = (name: string): boolean =>
  /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|::1|::ffff:127(?:\.\d{1,3}){3})$/i.test(name);
