// Logger: the part of pino that we use. The object comes first; never a key, a token or a URL that holds one in it.

type LogMethod = (fields: Record<string, unknown>, message: string) => void;

export interface Logger {
  debug: LogMethod;
  info: LogMethod;
  warn: LogMethod;
  error: LogMethod;
  child(fields: Record<string, unknown>): Logger;
}
