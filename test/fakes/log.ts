// Loggers for tests: one that says nothing, one that keeps what it is told.
import type { Logger } from '../../src/ports/log.ts';

const nothing = () => undefined;
export const silentLog: Logger = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  child: () => silentLog,
};

export interface LogLine {
  level: 'debug' | 'info' | 'warn' | 'error';
  message: string;
  fields: Record<string, unknown>;
}

export function recordingLog(): { log: Logger; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const make = (base: Record<string, unknown>): Logger => {
    const at = (level: LogLine['level']) => (fields: Record<string, unknown>, message: string) =>
      void lines.push({ level, message, fields: { ...base, ...fields } });
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (fields) => make({ ...base, ...fields }),
    };
  };
  return { log: make({}), lines };
}
