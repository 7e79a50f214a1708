// The chat page's cookie: who has entered a key once stays signed in. It grants the page's routes only, never the console.
// No state on the server: the cookie is sealed with the key that was entered, so that it is valid in every process and
// across restarts, and ends when the key is taken out of the configuration.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';

export const WEB_COOKIE = 'lanekeeper_web';
export const WEB_SESSION_SECONDS = 30 * 24 * 60 * 60;

export interface WebSessions {
  /** The cookie value for this key; undefined if it opens no account. */
  open(key: string): string | undefined;
  /** The cookie was made with a key that opens this account. */
  opens(account: string, cookie: string): boolean;
}

export interface WebSessionsOptions {
  /** Api keys by account. */
  apiKeys: ReadonlyMap<string, readonly string[]>;
  /** Opens every account; empty: there is none. */
  adminToken: string;
  now: () => number;
}

export function createWebSessions({ apiKeys, adminToken, now }: WebSessionsOptions): WebSessions {
  const present = (keys: readonly string[]): string[] => keys.filter((key) => key !== '');
  const keysOf = (account: string): string[] => present([...(apiKeys.get(account) ?? []), adminToken]);

  return {
    open(key) {
      const known = present([...[...apiKeys.values()].flat(), adminToken]);
      // No early exit: which one it was doesn't show in the time it took.
      const opens = known.reduce((found, candidate) => same(hash(candidate), hash(key)) || found, false);
      if (!opens) return undefined;
      const expires = String(Math.floor(now() / 1000) + WEB_SESSION_SECONDS);
      return `${expires}.${seal(key, expires).toString('base64url')}`;
    },
    opens(account, cookie) {
      const [expires = '', mac = ''] = cookie.split('.');
      const given = Buffer.from(mac, 'base64url');
      const opened = keysOf(account).reduce((found, key) => same(seal(key, expires), given) || found, false);
      return opened && Number(expires) * 1000 > now();
    },
  };
}

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
const seal = (key: string, expires: string): Buffer =>
  createHmac('sha256', key).update(`chat page session ${expires}`).digest();
const same = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
