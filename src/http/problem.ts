// Every error that leaves over HTTP: an entry of the catalogue as RFC 9457 problem+json. What isn't in the catalogue is
// logged and told as `internal`, without its message: it may hold anything.
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { AppError, ERRORS, type ErrorCode } from '../domain/errors.ts';
import type { Logger } from '../ports/log.ts';

interface FieldError {
  /** `/text`, `/sender/id`: where in the body, query or path. */
  path: string;
  message: string;
}

/** A refused request, ready to be told. */
export interface Refusal {
  code: ErrorCode;
  detail: string;
  errors?: FieldError[];
  retryAfterMs?: number;
}

/** When a client may come back, if the error does not say. */
const DEFAULT_RETRY_MS = 5_000;
const INTERNAL = 'Something went wrong on our side; the log says what.';

export function refusalOf(error: unknown): Refusal {
  if (error instanceof AppError) {
    // A configuration that went wrong at run time is nobody's business outside.
    if (error.spec.status === 500) return { code: 'internal', detail: INTERNAL };
    const { code, message, retryAfterMs } = error;
    return { code, detail: message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  return isFastifyError(error) ? ofFastify(error) : { code: 'internal', detail: INTERNAL };
}

const isFastifyError = (error: unknown): error is FastifyError =>
  error instanceof Error && 'code' in error && 'statusCode' in error;

function ofFastify(error: FastifyError): Refusal {
  if (error.validation) {
    const errors = error.validation.map(({ instancePath, message = 'is not valid' }) => ({
      path: instancePath,
      message,
    }));
    const [first] = errors;
    const detail = first
      ? `${error.validationContext ?? 'body'}${first.path}: ${first.message}`
      : error.message;
    return { code: error.validationContext === 'body' ? 'invalid_body' : 'bad_request', detail, errors };
  }
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return { code: 'payload_too_large', detail: 'The body is larger than this server takes.' };
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return { code: 'unsupported_media_type', detail: 'Send the body as application/json.' };
  }
  // The framework's own messages about requests hold nothing but the request.
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500)
    return { code: 'bad_request', detail: error.message };
  return { code: 'internal', detail: INTERNAL };
}

/** The status and the headers that go with a refusal, whatever shape its body has. */
export function refuse(reply: FastifyReply, { code, retryAfterMs }: Refusal): void {
  const { status, retryable } = ERRORS[code];
  reply.code(status);
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="lanekeeper"');
  const afterMs = retryAfterMs ?? (retryable && status === 503 ? DEFAULT_RETRY_MS : undefined);
  if (afterMs !== undefined) reply.header('retry-after', String(Math.max(1, Math.ceil(afterMs / 1000))));
}

export function sendProblem(reply: FastifyReply, refusal: Refusal): void {
  refuse(reply, refusal);
  const { code, detail, errors } = refusal;
  const { status, title } = ERRORS[code];
  const body = { type: `/docs#${code}`, title, status, detail, code, ...(errors ? { errors } : {}) };
  // As bytes: a charset parameter, which the type doesn't have, would be added to a string.
  void reply.header('content-type', 'application/problem+json').send(Buffer.from(JSON.stringify(body)));
}

/** Once per refusal: what is ours to mend is an error in the log, what is the client's is a debug line. */
function logRefusal(log: Logger, request: FastifyRequest, error: unknown, refusal: Refusal): void {
  const fields = { method: request.method, route: request.routeOptions.url, code: refusal.code };
  if (refusal.code === 'internal') log.error({ ...fields, error }, 'request failed');
  else if (refusal.code === 'storage_unavailable')
    log.warn({ ...fields, error }, 'request refused: the storage is unavailable');
  else log.debug({ ...fields, detail: refusal.detail }, 'request refused');
}

/** For setErrorHandler. */
export function createErrorHandler(log: Logger, send = sendProblem) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const refusal = refusalOf(error);
    logRefusal(log, request, error, refusal);
    send(reply, refusal);
  };
}
