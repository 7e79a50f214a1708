// The operator's log: pino, JSON lines, secrets redacted wherever they may hide in what is logged.
import { pino, type DestinationStream } from 'pino';
import { AppError } from '../domain/errors.ts';
import type { Logger } from '../ports/log.ts';

/** Field names that never reach a log line, at the top level and one below (pino's paths are exact). */
const SECRET_FIELDS = [
  'authorization',
  'api_key',
  'apiKey',
  'api_keys',
  'app_secret',
  'admin_token',
  'token',
  'secret',
  'cookie',
  'password',
  'set-cookie',
  'webhook-signature',
  'x-api-key',
];

export interface LogOptions {
  level: string;
  /** Where the lines go; default standard output. */
  destination?: DestinationStream;
}

export function createLog(options: LogOptions): Logger {
  const paths = SECRET_FIELDS.flatMap((field) => {
    const key = field.includes('-') ? `["${field}"]` : field;
    const nested = field.includes('-') ? `*["${field}"]` : `*.${field}`;
    return [key, nested, `*.${nested}`];
  });
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: serializeError },
      redact: { paths, censor: '[redacted]' },
    },
    // At once: lines that wait would be lost in a crash, and at the end of a process whose reader is gone they would be tried
    // for ever.
    options.destination ?? pino.destination({ dest: 1, sync: true }),
  );
}

/** Name, message, code, stack and cause: never the whole object, since SDK errors carry request headers. */
export function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return typeof error === 'string' ? error : { message: String(error) };
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  return {
    name: error.name,
    message: error.message,
    ...(code === undefined ? {} : { code }),
    // Errors of the catalogue are expected: what they say is enough.
    ...(error instanceof AppError ? {} : { stack: error.stack }),
    ...(error.cause instanceof Error
      ? { cause: { name: error.cause.name, message: error.cause.message } }
      : {}),
  };
}
