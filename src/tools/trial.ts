// Tool files are imported by a process of its own before the server imports them: one that ends the process, hangs, or
// takes all memory is named and left out, instead of taking the server with it.
import { fileURLToPath } from 'node:url';
import { startProgram } from '../child/start.ts';

interface TrialAnswer {
  url: string;
  error?: string;
}

/** What the process says: that it is there, then one answer a file. */
export type TrialMessage = 'ready' | TrialAnswer;

const MAX_ANSWER_BYTES = 1024 * 1024;
const MAX_REASON = 2_000;

const PROGRAM = fileURLToPath(new URL('trial-process.ts', import.meta.url));

/** URL of a file → why it can't be imported. A file may take `limitMs`. */
export async function tryImports(urls: readonly string[], limitMs: number): Promise<Map<string, string>> {
  const problems = new Map<string, string>();
  let left = urls;
  while (left.length > 0) {
    const { answers, end } = await attempt(left, limitMs);
    for (const { url, error } of answers) if (error !== undefined) problems.set(url, error);
    const [culprit, ...rest] = left.slice(answers.length);
    if (culprit !== undefined) problems.set(culprit, end);
    left = rest;
  }
  return problems;
}

/** Answers in order, until all are there or the process has come to its end: the next file's doing. */
async function attempt(
  urls: readonly string[],
  limitMs: number,
): Promise<{ answers: TrialAnswer[]; end: string }> {
  const answers: TrialAnswer[] = [];
  const { promise, resolve } = Promise.withResolvers<string>();
  let timer: NodeJS.Timeout | undefined;
  const { child, line } = startProgram({
    program: PROGRAM,
    output: 'ignore',
    maxBytes: MAX_ANSWER_BYTES,
    onMessage(raw) {
      const answer = readAnswer(raw, urls[answers.length]);
      if (answer) answers.push(answer);
      if (answers.length === urls.length) resolve('');
      clearTimeout(timer);
      timer = setTimeout(() => resolve(`it did not load within ${limitMs / 1000} seconds`), limitMs);
    },
    // What ends the process is told by `exit`; one that goes on is ended, and looks like one that hangs.
    onEnd: () => (timer ??= setTimeout(() => resolve('it breaks off the trial'), limitMs)),
  });
  child.once('error', (error) => resolve(`it can't be tried: ${error.message}`));
  child.once('exit', (code, signal) => resolve(`it ends the process (${signal ?? `exit code ${code}`})`));
  line.send(urls);
  const end = await promise;
  clearTimeout(timer);
  child.kill('SIGKILL');
  return { answers, end };
}

/** Undefined: it is only ready, or these are not the trial's own words: a file's code runs there, too. */
function readAnswer(raw: unknown, url: string | undefined): TrialAnswer | undefined {
  const { url: said, error } = Object(raw) as Record<string, unknown>;
  if (said !== url || url === undefined) return undefined;
  return { url, ...(typeof error === 'string' ? { error: error.slice(0, MAX_REASON) } : {}) };
}
