// The one catalogue of errors: code, HTTP status, retryable or not. docs/errors.md is held to it by a test.

export interface ErrorSpec {
  /** HTTP status of the problem+json answer. */
  status: number;
  title: string;
  /** True if the same request may succeed later. */
  retryable: boolean;
}

export const ERRORS = {
  bad_request: { status: 400, title: 'The request is not valid', retryable: false },
  malformed_json: { status: 400, title: 'The body is not valid JSON', retryable: false },
  unauthorized: { status: 401, title: 'Credentials are missing or wrong', retryable: false },
  signature_invalid: { status: 401, title: 'The webhook signature is not valid', retryable: false },
  signature_expired: {
    status: 401,
    title: 'The webhook timestamp is outside the tolerance',
    retryable: false,
  },
  forbidden: { status: 403, title: 'Not allowed', retryable: false },
  not_found: { status: 404, title: 'Not found', retryable: false },
  unknown_account: { status: 404, title: 'No such channel account', retryable: false },
  method_not_allowed: {
    status: 405,
    title: 'The path does not take this method',
    retryable: false,
  },
  conflict: { status: 409, title: 'Conflict', retryable: false },
  payload_too_large: { status: 413, title: 'The body is too large', retryable: false },
  unsupported_media_type: { status: 415, title: 'The content type is not supported', retryable: false },
  invalid_body: { status: 422, title: 'The body does not have the expected shape', retryable: false },
  idempotency_mismatch: {
    status: 422,
    title: 'The same id was used before with another body',
    retryable: false,
  },
  media_refused: { status: 422, title: 'The file is not taken', retryable: false },
  callback_refused: { status: 422, title: 'The callback URL is not allowed', retryable: false },
  rate_limited: { status: 429, title: 'Too many requests', retryable: true },
  conversation_full: {
    status: 429,
    title: 'Too many messages wait in the conversation',
    retryable: true,
  },
  internal: { status: 500, title: 'Internal error', retryable: true },
  storage_unavailable: { status: 503, title: 'The message could not be made durable', retryable: true },
  overloaded: { status: 503, title: 'The server has too much to do', retryable: true },
  draining: { status: 503, title: 'The server is shutting down', retryable: true },
  model_unavailable: { status: 503, title: 'The model did not answer', retryable: true },
  lease_lost: { status: 409, title: 'The run lost its lease', retryable: true },
  config_invalid: { status: 500, title: 'The configuration is not valid', retryable: false },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERRORS;

/** An error with a place in the catalogue. `detail` is safe to show: no secrets, no stack. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, detail: string, options: { cause?: unknown; retryAfterMs?: number } = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.retryAfterMs = options.retryAfterMs;
  }

  get spec(): ErrorSpec {
    return ERRORS[this.code];
  }
}
