// HTML or PDF → text, in a process of its own that is killed when the time is up or its memory is used: a page can be made
// to keep a parser busy for minutes, and one that exhausts a heap takes the whole process with it, threads included.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export type Conversion = { kind: 'html'; text: string; base: string } | { kind: 'pdf'; body: Uint8Array };

export interface Converted {
  title: string;
  text: string;
}

/** What the process answers: the text, or what the parser says. */
export type ConversionAnswer = { converted: Converted } | { error: string };

const MAX_HEAP_MB = 256;
const PROGRAM = fileURLToPath(new URL('convert-process.ts', import.meta.url));

/** Rejects with what the parser says, or with the signal's reason. */
export async function convert(input: Conversion, signal: AbortSignal): Promise<Converted> {
  signal.throwIfAborted();
  const child = fork(PROGRAM, {
    env: {},
    execArgv: [`--max-old-space-size=${MAX_HEAP_MB}`],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const { promise, resolve, reject } = Promise.withResolvers<Converted>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  child.once('message', (answer: ConversionAnswer) => {
    if ('converted' in answer) resolve(answer.converted);
    else reject(new Error(answer.error));
  });
  child.on('error', reject);
  child.once('exit', () => reject(new Error('the conversion ended without a result')));
  child.send(input, (error) => {
    if (error) reject(error);
  });
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', abort);
    child.kill('SIGKILL');
  }
}
