// Tool files are imported by a process of its own before the server imports them: one that ends the process, hangs, or
// takes all memory is named and left out, instead of taking the server with it.
import { fork } from 'node:child_process';
import { on } from 'node:events';
import { fileURLToPath } from 'node:url';

interface TrialAnswer {
  url: string;
  error?: string;
}

/** What the process says: that it is there, then one answer a file. */
export type TrialMessage = 'ready' | TrialAnswer;

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
  const child = fork(PROGRAM, { execArgv: [], stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  const answers: TrialAnswer[] = [];
  let end = '';
  const stop = new AbortController();
  const stopWith = (reason: string) => {
    end ||= reason;
    stop.abort();
  };
  child.once('error', (error) => stopWith(`it can't be tried: ${error.message}`));
  child.once('exit', (code, signal) => stopWith(`it ends the process (${signal ?? `exit code ${code}`})`));
  const late = () => stopWith(`it did not load within ${limitMs / 1000} seconds`);
  let timer: NodeJS.Timeout | undefined;
  child.send([...urls], (error) => {
    if (error) stopWith(`it can't be tried: ${error.message}`);
  });
  try {
    for await (const [message] of on(child, 'message', { signal: stop.signal })) {
      const answer = message as TrialMessage;
      if (answer !== 'ready') answers.push(answer);
      if (answers.length === urls.length) break;
      clearTimeout(timer);
      timer = setTimeout(late, limitMs);
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
    child.kill('SIGKILL');
  }
  return { answers, end };
}
