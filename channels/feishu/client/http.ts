// The HTTP that the SDK is given instead of its own: with a time-out, one token request at a time, errors without secrets,
// and the platform's `Retry-After`. A `code` other than 0 is an error here, which the SDK itself doesn't notice.
import { z } from 'zod';
import { FeishuError } from './codes.ts';

export interface HttpRequest {
  url?: string | undefined;
  method?: string | undefined;
  headers?: Record<string, unknown> | undefined;
  params?: Record<string, unknown> | undefined;
  data?: unknown;
}

export interface HttpOptions {
  timeoutMs: number;
  /** Ends every request under way: the channel stops. */
  signal: AbortSignal;
  now: () => number;
}

export interface Http {
  /** Rejects with FeishuError. */
  json(request: HttpRequest): Promise<unknown>;
  /** A body of up to maxBytes. Rejects with FeishuError. */
  bytes(request: HttpRequest, maxBytes: number): Promise<{ bytes: Buffer; mediaType: string }>;
  /** Milliseconds until requests may be made again; 0 if now. */
  pausedMs(): number;
}

const TOKEN_PATH = '/open-apis/auth/v3/tenant_access_token/internal';
/** Where the platform names no time; doubled each time that it wasn't enough. */
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 60_000;

const answerSchema = z.looseObject({ code: z.number().optional(), msg: z.string().optional() });

export function createHttp({ timeoutMs, signal, now }: HttpOptions): Http {
  let pausedUntil = 0;
  let nextPauseMs = FIRST_PAUSE_MS;
  let tokenRequest: Promise<unknown> | undefined;

  async function send(request: HttpRequest): Promise<Response> {
    const waitMs = pausedUntil - now();
    if (waitMs > 0) {
      const message = 'the app sends too much; the platform asked for patience';
      throw new FeishuError(message, { httpStatus: 429, retryAfterMs: waitMs });
    }
    const { method = 'GET', params, data } = request;
    const url = new URL(request.url ?? '');
    for (const [key, value] of Object.entries(params ?? {})) {
      if (typeof value === 'string' || typeof value === 'number') url.searchParams.append(key, String(value));
    }
    const form = data instanceof FormData;
    const headers = new Headers(form ? {} : { 'content-type': 'application/json; charset=utf-8' });
    for (const [key, value] of Object.entries(request.headers ?? {})) {
      if (typeof value === 'string') headers.set(key, value);
    }
    const hasBody = data !== undefined && !['GET', 'HEAD'].includes(method.toUpperCase());
    try {
      return await fetch(url, {
        method: method.toUpperCase(),
        headers,
        ...(hasBody ? { body: form ? data : JSON.stringify(data) } : {}),
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      });
    } catch (error) {
      // The URL and the body can hold secrets: only the system's code is told.
      throw new FeishuError(`no answer from the platform (${reasonOf(error)})`);
    }
  }

  function refusal(response: Response, text: string): FeishuError {
    const parsed = answerSchema.safeParse(parse(text));
    const code = parsed.data?.code;
    const httpStatus = response.status;
    const told =
      code === undefined ? `HTTP ${httpStatus}` : `code ${code}: ${(parsed.data?.msg ?? '').slice(0, 300)}`;
    const error = new FeishuError(`the platform refused (${told})`, {
      ...(code === undefined ? {} : { code }),
      httpStatus,
    });
    if (error.kind !== 'rate_limit') return error;
    let retryAfterMs = retryAfter(response.headers);
    if (httpStatus === 429 || code === 99991400) {
      // All requests of the app count together, so all of them wait. Those that were under way raise the pause once.
      const grows = now() >= pausedUntil;
      retryAfterMs ??= grows ? nextPauseMs : Math.max(0, pausedUntil - now());
      if (grows) nextPauseMs = Math.min(nextPauseMs * 2, MAX_PAUSE_MS);
      pausedUntil = Math.max(pausedUntil, now() + retryAfterMs);
    }
    // Of one chat alone: without a time, the delivery lane's own back-off decides.
    return new FeishuError(error.message, {
      ...(code === undefined ? {} : { code }),
      httpStatus,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  }

  async function exchange(request: HttpRequest): Promise<unknown> {
    const response = await send(request);
    const text = await response.text().catch((error: unknown) => {
      throw new FeishuError(`the platform's answer broke off (${reasonOf(error)})`);
    });
    const body = parse(text);
    const { data: answer } = answerSchema.safeParse(body);
    if (!response.ok || !answer || (answer.code ?? 0) !== 0) throw refusal(response, text);
    if (now() >= pausedUntil) nextPauseMs = FIRST_PAUSE_MS;
    return body;
  }

  return {
    pausedMs: () => Math.max(0, pausedUntil - now()),
    json(request) {
      if (!request.url?.endsWith(TOKEN_PATH)) return exchange(request);
      // Calls that find no token all at once share one request for it.
      tokenRequest ??= exchange(request).finally(() => (tokenRequest = undefined));
      return tokenRequest;
    },
    async bytes(request, maxBytes) {
      const response = await send(request);
      if (!response.ok || !response.body) throw refusal(response, await response.text());
      const chunks: Uint8Array[] = [];
      let size = 0;
      for await (const chunk of response.body) {
        size += chunk.length;
        if (size > maxBytes) throw new FeishuError(`larger than ${maxBytes} bytes`, { httpStatus: 413 });
        chunks.push(chunk);
      }
      return {
        bytes: Buffer.concat(chunks, size),
        mediaType: response.headers.get('content-type')?.split(';')[0] ?? 'application/octet-stream',
      };
    },
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A proxy's page, or nothing: the status tells what is known.
    return undefined;
  }
}

/** Seconds, in the platform's header or the standard one. */
function retryAfter(headers: Headers): number | undefined {
  const value = headers.get('retry-after') ?? headers.get('x-ogw-ratelimit-reset');
  if (value === null || !/^\d+(\.\d+)?$/.test(value.trim())) return undefined;
  return Math.min(Number(value) * 1000, MAX_PAUSE_MS);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  if (error.name === 'TimeoutError') return 'time-out';
  if (error.name === 'AbortError') return 'stopped';
  const { cause } = error;
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string'
    ? cause.code
    : 'connection failed';
}
