// HTML or PDF → text, in a thread that is ended when the time is up or the memory is used: a page can be made to keep a
// parser busy for minutes, and the server has other things to do.
import { Worker } from 'node:worker_threads';

export type Conversion = { kind: 'html'; text: string; base: string } | { kind: 'pdf'; body: Uint8Array };

export interface Converted {
  title: string;
  text: string;
}

const MAX_HEAP_MB = 256;

/** Rejects with what the parser says, or with the signal's reason. */
export async function convert(input: Conversion, signal: AbortSignal): Promise<Converted> {
  signal.throwIfAborted();
  const worker = new Worker(new URL('convert-worker.ts', import.meta.url), {
    workerData: input,
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  });
  const { promise, resolve, reject } = Promise.withResolvers<Converted>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  worker.once('message', resolve);
  worker.once('error', reject);
  worker.once('exit', () => reject(new Error('the conversion ended without a result')));
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', abort);
    await worker.terminate();
  }
}
