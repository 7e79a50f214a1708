// One call of the open API, through the vendor's client or past it: with the app's token, which is replaced once if it
// turned bad, and an answer of a known shape.
import * as lark from '@larksuiteoapi/node-sdk';
import type { z } from 'zod';
import type { FeishuSettings } from '../../../config/schema.ts';
import type { Logger } from '../../../src/ports/log.ts';
import { FeishuError } from './codes.ts';
import { createHttp, type HttpRequest } from './http.ts';
import { createTokenCache, domainOf, httpInstance, sdkLogger } from './sdk.ts';

export interface CallerOptions {
  settings: FeishuSettings;
  log: Logger;
  /** Ends every request under way: the channel stops. */
  signal: AbortSignal;
  /** Milliseconds since the epoch. */
  now: () => number;
  timeoutMs?: number;
}

/** Paths begin behind `/open-apis`. Each rejects with FeishuError. */
export interface Caller {
  call<T>(
    schema: z.ZodType<T>,
    method: string,
    path: string,
    request?: Pick<HttpRequest, 'params' | 'data'>,
  ): Promise<T>;
  upload<T>(schema: z.ZodType<T>, path: string, form: FormData): Promise<T>;
  download(
    path: string,
    params: Record<string, string>,
    maxBytes: number,
  ): Promise<{ bytes: Buffer; mediaType: string }>;
}

const TIMEOUT_MS = 8_000;

export function createCaller({ settings, log, signal, now, timeoutMs = TIMEOUT_MS }: CallerOptions): Caller {
  const http = createHttp({ timeoutMs, signal, now });
  const cache = createTokenCache(now);
  const domain = domainOf(settings.domain);
  const client = new lark.Client({
    appId: settings.app_id,
    appSecret: settings.app_secret,
    domain,
    cache,
    logger: sdkLogger(log),
    loggerLevel: lark.LoggerLevel.warn,
    httpInstance: httpInstance(http),
  });

  async function withToken<T>(work: () => Promise<T>): Promise<T> {
    const generation = cache.generation();
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof FeishuError) || error.kind !== 'token') throw error;
      // Of many calls that fail at once, the first one forgets the token; the new one is left alone.
      if (cache.generation() === generation) cache.clear();
      return work();
    }
  }

  async function authorization(): Promise<{ Authorization: string }> {
    const token: unknown = await client.tokenManager.getTenantAccessToken();
    return { Authorization: `Bearer ${String(token)}` };
  }

  const urlOf = (path: string): string => new URL(`/open-apis${path}`, domain).href;

  return {
    call(schema, method, path, { params, data } = {}) {
      const request = { method, url: `/open-apis${path}`, params, data };
      return withToken(async () =>
        shaped(schema, await client.request(request as Parameters<typeof client.request>[0])),
      );
    },
    // Not through client.request: it spreads its data, which empties a form.
    upload(schema, path, form) {
      const request = { method: 'POST', url: urlOf(path), data: form };
      return withToken(async () =>
        shaped(schema, await http.json({ ...request, headers: await authorization() })),
      );
    },
    // Nor this: it keeps no limit.
    download(path, params, maxBytes) {
      return withToken(async () =>
        http.bytes({ url: urlOf(path), headers: await authorization(), params }, maxBytes),
      );
    },
  };
}

function shaped<T>(schema: z.ZodType<T>, answer: unknown): T {
  const parsed = schema.safeParse(answer);
  if (!parsed.success)
    throw new FeishuError('the platform answered in an unknown shape', { httpStatus: 502 });
  return parsed.data;
}
