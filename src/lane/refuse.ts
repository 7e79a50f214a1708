// A run that is not run: its messages are answered with a fixed sentence, since a limit is reached, or since every attempt
// before died with its process.
import type { AgentResult } from '../agent/index.ts';
import type { RunEvent } from '../domain/events.ts';
import { sentence, type Language } from '../domain/sentences.ts';
import type { Lease, Snapshot } from '../ports/store.ts';
import type { LimitReached } from './daily-tokens.ts';
import { storedContent } from './render.ts';

export interface Refused {
  lease: Lease;
  snapshot: Snapshot;
  /** What ended the attempt before this one, if that was here and said so. */
  lastError: string | undefined;
  language: Language;
  emit: (event: RunEvent) => void;
}

export function refuse(
  code: 'given_up' | LimitReached,
  { lease, snapshot, lastError, language, emit }: Refused,
): AgentResult {
  const reply = sentence(code, language);
  const base = { conversation: lease.conversation, run: lease.run, turn: 0 };
  const messages = snapshot.inbox.map((message) => message.id);
  const { at } = snapshot.inbox.at(-1)!;
  const result: AgentResult = {
    entries: [
      ...snapshot.inbox.map((message) => ({
        id: message.id,
        at: message.at,
        message: { role: 'user' as const, content: storedContent(message) },
      })),
      { at, stop: 'error', message: { role: 'assistant', content: [{ type: 'text', text: reply }] } },
    ],
    reply,
    status: 'failed',
    error: code === 'given_up' ? givenUpBecause(snapshot.attempt - 1, lastError) : code,
    stop: 'error',
    usage: { input: 0, output: 0, cached: 0 },
    turns: 0,
  };
  const { status, stop, usage, turns } = result;
  emit({ ...base, type: 'agent_start', messages });
  emit({ ...base, type: 'error', code, message: reply });
  emit({ ...base, type: 'agent_end', status, reply, stop, usage, turns });
  return result;
}

const givenUpBecause = (attempts: number, lastError = 'the process that ran it ended, or lost it'): string =>
  `given_up: ${attempts} attempts came to no end; the last one: ${lastError}`;
