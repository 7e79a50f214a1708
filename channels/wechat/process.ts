// One life of the child process: started, spoken with, watched, ended. What it has begun ends with it.
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startProgram } from '../../src/child/start.ts';
import type { Logger } from '../../src/ports/log.ts';
import { readFromChild, type FromChild, type Start, type ToChild } from './ipc.ts';

export interface ChildOptions {
  start: Start;
  /** Environment variables of the puppet's; it gets none of ours. */
  env: Readonly<Record<string, string>>;
  on(message: FromChild): void;
  log: Logger;
  /** Ends it. */
  signal: AbortSignal;
}

export interface Child {
  /** False: it is gone. */
  tell(message: ToChild): boolean;
  /** Asks it to end; after a while it is made to. */
  stop(): void;
  /** Resolves when it has ended, with how. */
  ended: Promise<string>;
}

const PROGRAM = fileURLToPath(new URL('child.ts', import.meta.url));
const GROUPS = process.platform !== 'win32';
/** Longer than the child takes to end by itself. */
const STOP_MS = 5_000;
const PING_MS = 15_000;
/** An event loop that stands still for so long doesn't come back. */
const SILENT_MS = 60_000;
const MAX_LINE = 2_000;
const MAX_WORDS_BYTES = 4 * 1024 * 1024;

export function startChild({ start, env, on, log, signal }: ChildOptions): Child {
  const cache = getCompileCacheDir();
  const { child, line } = startProgram({
    program: PROGRAM,
    // Its own group: what the puppet starts can be ended with it, and Ctrl-C at our terminal doesn't reach it.
    detached: GROUPS,
    env: { ...(cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) }), ...env },
    output: 'pipe',
    // One file a message, and the words around it.
    maxBytes: start.maxFileBytes + MAX_WORDS_BYTES,
    onMessage: heard,
    onEnd(reason) {
      log.debug({ reason }, 'the line to the child process has ended');
      // It is ending as well, or of no use any more.
      if (child.exitCode === null && child.signalCode === null) stopping ??= setTimeout(kill, STOP_MS);
    },
  });
  const secrets = secretsOf([start.options, env]);
  const hide = (text: string) => secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
  let heardAt = performance.now();
  let stopping: NodeJS.Timeout | undefined;

  const tell = (message: ToChild): boolean => line.send(message);

  function kill(): void {
    try {
      // The whole group, if it has one.
      if (GROUPS && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      else child.kill('SIGKILL');
    } catch {
      // It has ended already.
    }
  }

  function stop(): void {
    if (stopping) return;
    stopping = setTimeout(kill, STOP_MS);
    if (!tell({ type: 'stop' })) kill();
  }

  function heard(raw: unknown): void {
    heardAt = performance.now();
    const message = readFromChild(raw);
    if (!message) log.warn({}, 'the child process said something of an unknown shape; it is dropped');
    else if (message.type === 'up') tell(start);
    else on('reason' in message ? { ...message, reason: hide(message.reason) } : message);
  }

  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue;
    const output = createInterface({ input: stream });
    output.on('line', (text) => log.debug({ line: hide(text).slice(0, MAX_LINE) }, 'the puppet prints'));
    output.on('error', (error) => log.debug({ error }, 'what the puppet prints can no longer be read'));
  }
  const ping = setInterval(() => {
    if (performance.now() - heardAt < SILENT_MS) tell({ type: 'ping' });
    else kill();
  }, PING_MS);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();

  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => {
      // Without an id it was never there; else it may go on, and `exit` comes.
      if (child.pid === undefined) resolve(`it could not be started: ${error.message}`);
      else log.warn({ error }, 'the child process can no longer be reached');
    });
    child.once('exit', (code, name) => resolve(name ? `killed by ${name}` : `ended with code ${code}`));
  });
  return {
    tell,
    stop,
    ended: ended.then((how) => {
      clearInterval(ping);
      clearTimeout(stopping);
      signal.removeEventListener('abort', stop);
      // Helpers that it left behind.
      kill();
      child.stdout?.destroy();
      child.stderr?.destroy();
      return how;
    }),
  };
}

/** A puppet may print its options. What is shorter is no secret, and would be found everywhere. */
function secretsOf(value: unknown): string[] {
  if (typeof value === 'string') return value.length >= 6 ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap((one) => secretsOf(one));
}
