// HTML or PDF → text, in a process of its own that is killed when the time is up or its memory is used: a page can be made
// to keep a parser busy for minutes, and one that exhausts a heap takes the whole process with it, threads included.
import { fileURLToPath } from 'node:url';
import { startProgram } from '../../child/start.ts';

export type Conversion = { kind: 'html'; text: string; base: string } | { kind: 'pdf'; body: Uint8Array };

export interface Converted {
  title: string;
  text: string;
}

/** What the process answers: the text, or what the parser says. */
export type ConversionAnswer = { converted: Converted } | { error: string };

const MAX_HEAP_MB = 256;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const MAX_REASON = 500;
const NOTHING = 'the conversion ended without a result';
const PROGRAM = fileURLToPath(new URL('convert-process.ts', import.meta.url));

/** Rejects with what the parser says, or with the signal's reason. */
export async function convert(input: Conversion, signal: AbortSignal): Promise<Converted> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Converted>();
  const { child, line } = startProgram({
    program: PROGRAM,
    env: {},
    flags: [`--max-old-space-size=${MAX_HEAP_MB}`],
    output: 'ignore',
    maxBytes: MAX_ANSWER_BYTES,
    onMessage(raw) {
      const answer = readAnswer(raw);
      if (answer && 'converted' in answer) resolve(answer.converted);
      else reject(new Error(answer?.error ?? NOTHING));
    },
    onEnd: () => reject(new Error(NOTHING)),
  });
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  child.on('error', reject);
  line.send(input);
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', abort);
    child.kill('SIGKILL');
  }
}

/** A page may have made the process its own: what it says is looked at. */
function readAnswer(raw: unknown): ConversionAnswer | undefined {
  const { converted, error } = Object(raw) as Record<string, unknown>;
  if (typeof error === 'string') return { error: error.slice(0, MAX_REASON) };
  const { title, text } = Object(converted) as Record<string, unknown>;
  return typeof title === 'string' && typeof text === 'string' ? { converted: { title, text } } : undefined;
}
