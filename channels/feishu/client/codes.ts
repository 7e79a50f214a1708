// What the platform's error codes mean for a delivery. One table: a code that isn't in it is judged by its HTTP status.
// Codes: https://open.feishu.cn/document/server-docs/api-call-guide/generic-error-code and each API's page.
import type { DeliveryResult } from '../../../src/ports/channel.ts';

export type CodeKind =
  /** Too much at once: later. */
  | 'rate_limit'
  /** Their side is in trouble: later. */
  | 'busy'
  /** The access token is no longer good: get another, try again. */
  | 'token'
  /** The app itself can't get a token: nothing goes out until somebody puts its id or secret right. */
  | 'credentials'
  /** The message or chat that was to be answered is gone. */
  | 'gone'
  /** The app may not do this until somebody changes something in the developer console. */
  | 'permission'
  /** The content is refused as it is. */
  | 'content'
  /** A card's update came too late or twice: a newer one is there already. */
  | 'stale'
  /** The card streams no more. */
  | 'closed';

/** Exported for the test that holds the operator's table (README.md) to it. */
export const CODES: Readonly<Record<number, CodeKind>> = {
  230020: 'rate_limit',
  11232: 'rate_limit',
  99991400: 'rate_limit',
  11233: 'rate_limit',
  1000004: 'busy',
  1000005: 'busy',
  232001: 'content',
  230099: 'content',
  230001: 'content',
  230025: 'content',
  11310: 'content',
  230011: 'gone',
  231003: 'gone',
  230002: 'permission',
  230006: 'permission',
  230013: 'permission',
  230018: 'permission',
  230027: 'permission',
  230035: 'permission',
  99991672: 'permission',
  99991679: 'permission',
  10003: 'credentials',
  10014: 'credentials',
  99991661: 'token',
  99991663: 'token',
  99991664: 'token',
  99991665: 'token',
  99991668: 'token',
  99991671: 'token',
  99991677: 'token',
  300317: 'stale',
  300301: 'stale',
  300309: 'closed',
};

/** What went wrong in a call; the message is safe to show: neither secrets nor tokens nor URLs. */
export class FeishuError extends Error {
  readonly code: number | undefined;
  readonly httpStatus: number | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    details: { code?: number; httpStatus?: number; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'FeishuError';
    this.code = details.code;
    this.httpStatus = details.httpStatus;
    this.retryAfterMs = details.retryAfterMs;
  }

  get kind(): CodeKind | undefined {
    const known = this.code === undefined ? undefined : CODES[this.code];
    if (known) return known;
    const { httpStatus } = this;
    if (httpStatus === 429) return 'rate_limit';
    if (httpStatus === undefined || httpStatus >= 500 || httpStatus === 408) return 'busy';
    return undefined;
  }
}

const HINTS: Partial<Record<CodeKind, string>> = {
  permission: 'grant the scope, or add the bot to the chat, in the Feishu developer console',
  token: 'check app_id and app_secret',
  credentials: 'check app_id and app_secret',
};

/** How often an account that can't send looks whether it can. */
const CREDENTIALS_WAIT_MS = 60_000;

/** What becomes of a delivery whose sending failed like this. */
export function resultOf(error: unknown): DeliveryResult {
  if (!(error instanceof FeishuError)) return { status: 'retry', error: 'the connection failed' };
  const { kind, message, retryAfterMs } = error;
  switch (kind) {
    case 'rate_limit':
    case 'busy':
    // A fresh token was tried already: waiting helps when the platform hands out bad ones, and in the end it is parked.
    case 'token':
      return {
        status: 'retry',
        error: withHint(message, kind),
        ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }),
      };
    case 'credentials':
      return { status: 'wait', error: withHint(message, kind), afterMs: CREDENTIALS_WAIT_MS };
    case 'gone':
      return { status: 'drop', error: message };
    default:
      return { status: 'park', error: withHint(message, kind) };
  }
}

function withHint(message: string, kind: CodeKind | undefined): string {
  const hint = kind === undefined ? undefined : HINTS[kind];
  return hint === undefined ? message : `${message}; ${hint}`;
}
