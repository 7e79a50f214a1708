// What the vendor's SDK is given in place of its own: our HTTP, a log without secrets, tokens by app.
import * as lark from '@larksuiteoapi/node-sdk';
import type { Logger } from '../../../src/ports/log.ts';
import { FeishuError } from './codes.ts';
import type { Http, HttpRequest } from './http.ts';

export const domainOf = (domain: string): string =>
  domain === 'feishu' ? 'https://open.feishu.cn' : domain === 'lark' ? 'https://open.larksuite.com' : domain;

/** The part of the vendor's HTTP interface that its client uses. */
export function httpInstance(http: Pick<Http, 'json'>): lark.HttpInstance {
  const send = (request: HttpRequest) => http.json(request);
  const bare = (method: string) => (url: string, options?: HttpRequest) => send({ ...options, url, method });
  const full = (method: string) => (url: string, data?: unknown, options?: HttpRequest) =>
    send({ ...options, url, data, method });
  return {
    request: send,
    get: bare('GET'),
    delete: bare('DELETE'),
    head: bare('HEAD'),
    options: bare('OPTIONS'),
    post: full('POST'),
    put: full('PUT'),
    patch: full('PATCH'),
  } as lark.HttpInstance;
}

export interface TokenCache extends lark.Cache {
  /** Forgets them all. */
  clear(): void;
  /** Rises with each clear(). */
  generation(): number;
}

/** One app's tokens. The vendor's default is shared by all apps of the process. */
export function createTokenCache(now: () => number): TokenCache {
  const values = new Map<unknown, { value: unknown; until: number }>();
  let generation = 0;
  return {
    generation: () => generation,
    async get(key) {
      const found = values.get(key);
      return found && found.until > now() ? found.value : undefined;
    },
    async set(key, value, until = Infinity) {
      values.set(key, { value, until });
      return true;
    },
    clear() {
      generation++;
      values.clear();
    },
  };
}

/** Only what is known to be harmless is logged: the vendor's client hands over whole errors, with the app's secret in them. */
export function sdkLogger(log: Logger): lark.Logger {
  const say = (level: 'debug' | 'warn') => (message: unknown) => {
    const parts = (Array.isArray(message) ? message : [message]) as unknown[];
    const text = parts
      .map((part) =>
        part instanceof FeishuError ? part.message : typeof part === 'string' ? safe(part) : '',
      )
      .filter((part) => part !== '')
      .join(' ')
      .slice(0, 300);
    if (text !== '') log[level]({}, `feishu client: ${text}`);
  };
  // Errors reach their callers, who know how bad they are.
  return { error: say('debug'), warn: say('warn'), info: () => {}, debug: () => {}, trace: () => {} };
}

/** Connection URLs carry tickets; event payloads are people's messages. */
const safe = (text: string): string =>
  text.replaceAll(/\b(?:wss?|https?):\/\/\S+/g, '[address]').replace(/data: [^]*/, '[data]');
