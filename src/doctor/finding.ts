// What the doctor says, and what its parts share.
import type { Logger } from '../ports/log.ts';

export interface Finding {
  /** note: works, but look at it. wrong: does not work; the text says what to do. */
  state: 'ok' | 'note' | 'wrong';
  part: string;
  text: string;
}

/** A server of ours that answers where this configuration would listen. */
export interface Running {
  url: string;
  ready: boolean;
}

/** Of whatever is asked over the network. */
export const PATIENCE_MS = 5_000;

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Collects warnings: what a storage logs at the start is for the operator as well. */
export function notingLog(notes: string[]): Logger {
  const note = (_fields: Record<string, unknown>, message: string) => void notes.push(message);
  const log: Logger = { debug() {}, info() {}, warn: note, error: note, child: () => log };
  return log;
}
