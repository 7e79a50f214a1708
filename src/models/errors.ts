// Model layer: whatever went wrong with a call → ModelError. Works on plain facts (status, codes, words), so that one
// table serves every vendor and no SDK has to be loaded.
import type { ModelError, ModelErrorKind } from '../ports/model.ts';
import { isOverflow } from './overflow.ts';
import { redact } from './redact.ts';
import { retryAfter } from './retry-after.ts';

/** What a vendor said. */
export interface Failure {
  status?: number;
  /** The vendor's own codes and types, joined; `insufficient_quota`, `1113`, … */
  code: string;
  message: string;
  headers?: Pick<Headers, 'get'>;
  /** No answer, half an answer, or one that can't be read. */
  transport?: boolean;
}

/**
 * Carries a Failure through an SDK, which wraps what its fetch throws. Its own message says nothing: Anthropic's SDK
 * takes any error that speaks of a timeout for one of its own, and forgets the cause.
 */
export class CallError extends Error {
  readonly failure: Failure;

  constructor(failure: Failure, options?: ErrorOptions) {
    super('the model call failed', options);
    this.name = 'CallError';
    this.failure = failure;
  }
}

const RETRYABLE: ReadonlySet<ModelErrorKind> = new Set(['rate_limit', 'overloaded', 'network']);

/** Codes that mean the same wherever they are seen: GLM (11xx, 12xx, 13xx), MiniMax (10xx, 2049), DeepSeek, Kimi. */
const CODES: Record<string, ModelErrorKind> = {
  1113: 'quota',
  1008: 'quota',
  exceeded_current_quota_error: 'quota',
  1002: 'rate_limit',
  1302: 'rate_limit',
  1303: 'rate_limit',
  1305: 'overloaded',
  insufficient_system_resource: 'overloaded',
  engine_overloaded_error: 'overloaded',
  overloaded_error: 'overloaded',
  1261: 'overflow',
  1039: 'overflow',
  1301: 'refused',
  1026: 'refused',
  1027: 'refused',
  content_filter: 'refused',
  1004: 'auth',
  2049: 'auth',
  invalid_request_error: 'invalid',
  not_found_error: 'invalid',
};

const QUOTA =
  /insufficient[ _-]?(?:quota|balance|funds|credits?)|exceeded (?:your )?current quota|credit balance|out of credits|billing|payment required|account.{0,20}(?:overdue|arrears|suspended)|arrearage|spend(?:ing)?[ _]limit|budget (?:has been )?exceeded|\b(?:daily|monthly)\b.{0,20} limit (?:exceeded|reached)|余额不足|欠费|充值|资源包|额度(?:不足|已用完|用尽)/i;
const RATE =
  /rate[ _-]?limit|too many requests|too many tokens, please wait|throttl|per[ -](?:minute|min|second|hour|day)\b|\b[rt]p[mds]\b|频率|限流|速率|并发|过于频繁|请求过多/i;
const BUSY = /overloaded|server (?:is )?(?:currently )?busy|temporarily unavailable|繁忙|访问量过大/i;
const REFUSED =
  /content[ _-]?(?:filter|policy|exists risk|management policy)|data_?inspection|responsible[ _]?ai|sensitive[ _-]?(?:content|info|word|text|data)|new_sensitive|considered high risk|safety (?:system|reasons|policy)|inappropriate|prohibited_content|敏感|违规|不安全/i;
const AUTH =
  /invalid[ _-]?(?:api[ _-]?key|authentication|token)|incorrect api key|authentication[ _-]?(?:error|fails?)|unauthori[sz]ed|permission[ _-]?(?:error|denied)|api[ _]?key.{0,20}(?:missing|required|not valid|expired)|login fail|无效的?(?:令牌|密钥|api)/i;

export function classify(failure: Failure, keys: readonly string[] = []): ModelError {
  const kind = kindOf(failure);
  const retryAfterMs = RETRYABLE.has(kind) ? retryAfter(failure) : undefined;
  const status = failure.status === undefined ? '' : `${failure.status} `;
  return {
    kind,
    message: redact(`${status}${failure.message || failure.code || 'no message'}`, keys),
    retryable: RETRYABLE.has(kind),
    ...(failure.status === undefined ? {} : { status: failure.status }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

function kindOf(failure: Failure): ModelErrorKind {
  if (failure.transport) return 'network';
  const { status } = failure;
  const text = `${failure.code} ${failure.message}`;
  const coded = failure.code
    .split(' ')
    .map((code) => CODES[code])
    .find((kind) => kind !== undefined);
  // Gemini says "exceeded your current quota … please retry in 12s" for a rate limit: a hint when to retry decides.
  const quota = coded === 'quota' || QUOTA.test(text);
  if (status === 402 || (quota && (status !== 429 || retryAfter(failure) === undefined))) return 'quota';
  if (status === 429) return coded === 'overloaded' || BUSY.test(text) ? 'overloaded' : 'rate_limit';
  if (isOverflow(text) || (status === 413 && !/image|图片/i.test(text))) return 'overflow';
  if (status === 401) return 'auth';
  if (coded !== undefined && coded !== 'invalid') return coded;
  if (REFUSED.test(text)) return 'refused';
  if (status === 403) return 'auth';
  if (status === 408 || status === 409 || status === 425 || (status !== undefined && status >= 500))
    return 'overloaded';
  // 400 is some gateways' status for everything, and inside a stream there is none: words decide.
  if (RATE.test(text)) return 'rate_limit';
  if (AUTH.test(text)) return 'auth';
  if (BUSY.test(text)) return 'overloaded';
  return status === undefined && coded === undefined ? 'overloaded' : 'invalid';
}

/** Anything thrown while a call was made → Failure. */
export function failureOf(error: unknown): Failure {
  for (
    let cause: unknown = error, depth = 0;
    cause instanceof Error && depth < 6;
    cause = cause.cause, depth++
  )
    if (cause instanceof CallError) return cause.failure;
  if (!(error instanceof Error)) return { code: '', message: String(error), transport: true };
  // Inside a stream the SDKs throw their own error with the vendor's object in it.
  const body = (error as { error?: unknown }).error;
  if (typeof body === 'object' && body !== null) return failureOfBody(body);
  if (typeof body === 'string') return { code: '', message: body };
  return { code: codeOf(error), message: describe(error), transport: true };
}

/** "fetch failed" says nothing; its cause does ("connect ECONNREFUSED 127.0.0.1:1"). */
function describe(error: Error): string {
  const parts: string[] = [];
  for (
    let cause: unknown = error, depth = 0;
    cause instanceof Error && depth < 4;
    cause = cause.cause, depth++
  )
    if (cause.message && !parts.includes(cause.message)) parts.push(cause.message);
  return parts.join(': ');
}

const codeOf = (error: Error): string => {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : '';
};

/** The vendor's error object, in any of the shapes in use. */
export function failureOfBody(body: unknown, status?: number, headers?: Pick<Headers, 'get'>): Failure {
  const facts = { code: [] as string[], message: '', status };
  read(body, facts, 0);
  return {
    code: facts.code.join(' '),
    message: facts.message,
    ...(facts.status === undefined ? {} : { status: facts.status }),
    ...(headers && { headers }),
  };
}

function read(
  value: unknown,
  facts: { code: string[]; message: string; status?: number | undefined },
  depth: number,
): void {
  if (typeof value === 'string') {
    if (!facts.message) facts.message = value;
    return;
  }
  if (typeof value !== 'object' || value === null || depth > 3) return;
  const object = value as Record<string, unknown>;
  for (const key of ['code', 'type', 'status', 'error_code', 'status_code']) {
    const code = object[key];
    if (typeof code !== 'string' && typeof code !== 'number') continue;
    if (code !== 'error') facts.code.push(String(code));
    // OpenRouter and others put the upstream's HTTP status into the code.
    const number = Number(code);
    if (facts.status === undefined && number >= 400 && number < 600) facts.status = number;
  }
  for (const key of [
    'error',
    'message',
    'msg',
    'status_msg',
    'detail',
    'error_msg',
    'base_resp',
    'details',
    'errors',
    'metadata',
  ])
    if (object[key] !== undefined && object[key] !== null) read(object[key], facts, depth + 1);
  if (Array.isArray(value)) read(value[0], facts, depth + 1);
  // What the upstream of a gateway said, beside the gateway's own "Provider returned error".
  if (typeof object.raw === 'string') facts.message = `${facts.message} ${object.raw}`.trim();
}
