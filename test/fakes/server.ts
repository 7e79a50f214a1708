// The real server as a process of its own, for end-to-end and fault tests: started, killed, started again on the same
// data. Everything it prints is kept and shown when a test fails to see what it waits for.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const ADMIN_TOKEN = 'test-admin-token';
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface ServerProcessOptions {
  /** Laid over config/default.yaml (JSON is YAML). */
  config?: Record<string, unknown>;
  /** Redis; default embedded. */
  redisUrl?: string;
  /** Default src/main.ts; or a composition root of the test's own. */
  entry?: string;
  args?: string[];
  env?: Record<string, string>;
  /** Default: a new folder, removed by close(). */
  dataDir?: string;
  /** A channel for child.send(), for a composition root that listens to it. */
  ipc?: boolean;
}

export interface ServerProcess {
  url: string;
  dataDir: string;
  /** Log lines so far. */
  lines: string[];
  child: ChildProcess;
  /** Resolves with the first log line that matches, past or future; of the past, those from this index of `lines`. */
  line(pattern: RegExp, from?: number): Promise<string>;
  /** Other settings than those it has, while it runs; resolves with the log line that names what has changed. */
  configure(config: Record<string, unknown>): Promise<string>;
  /** Sends a signal and resolves when the process has ended, with its exit code (null after a signal). */
  kill(signal: NodeJS.Signals): Promise<number | null>;
  /** Resolves when the process has ended by itself. */
  ended: Promise<number | null>;
  /** Kills, and removes the data folder if it was made here. */
  close(): Promise<void>;
}

export async function startServer(options: ServerProcessOptions = {}): Promise<ServerProcess> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'lanekeeper-test-')));
  const configFile = join(dataDir, 'overlay.yaml');
  await writeFile(configFile, JSON.stringify(options.config ?? {}));
  const entry = options.entry ?? join(ROOT, 'src/main.ts');
  const child: ChildProcess = spawn(process.execPath, [entry, ...(options.args ?? [])], {
    cwd: ROOT,
    stdio: options.ipc ? ['ignore', 'pipe', 'pipe', 'ipc'] : ['ignore', 'pipe', 'pipe'],
    // A clean environment: no key and no setting of the machine's own reaches a test.
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: dataDir,
      NODE_COMPILE_CACHE: join(tmpdir(), 'lanekeeper-test-compile-cache'),
      PORT: '0',
      ADMIN_TOKEN,
      LOG_LEVEL: 'debug',
      LANEKEEPER_CONFIG: configFile,
      LANEKEEPER_DATA_DIR: dataDir,
      ...(options.redisUrl ? { REDIS_URL: options.redisUrl } : {}),
      ...options.env,
    },
  });
  const lines: string[] = [];
  const waiting = new Set<{
    pattern: RegExp;
    resolve: (line: string) => void;
    reject: (error: Error) => void;
  }>();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream! }).on('line', (line) => {
      lines.push(line);
      for (const waiter of waiting) {
        if (!waiter.pattern.test(line)) continue;
        waiting.delete(waiter);
        waiter.resolve(line);
      }
    });
  }
  const ended = once(child, 'close').then(([code]: (number | null)[]) => {
    for (const { pattern, reject } of waiting) {
      reject(
        new Error(`the server ended (${code}) before printing ${pattern}:\n${lines.slice(-30).join('\n')}`),
      );
    }
    waiting.clear();
    return code ?? null;
  });

  const line = (pattern: RegExp, from = 0): Promise<string> => {
    const past = lines.slice(from).find((printed) => pattern.test(printed));
    if (past !== undefined) return Promise.resolve(past);
    return new Promise((resolve, reject) => waiting.add({ pattern, resolve, reject }));
  };
  const kill = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    return ended;
  };
  const ready = JSON.parse(await line(/"msg":"(ready|listening, not ready yet)"/)) as { url: string };
  return {
    url: ready.url,
    dataDir,
    lines,
    child,
    line,
    async configure(config) {
      const printed = lines.length;
      await writeFile(configFile, JSON.stringify(config));
      child.kill('SIGHUP');
      return line(/configuration re-read/, printed);
    },
    kill,
    ended,
    async close() {
      if (child.exitCode === null && child.signalCode === null) await kill('SIGKILL');
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** Configuration for a server whose model is the fake at `openaiUrl`. */
export function withModel(openaiUrl: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    model: 'fake',
    models: {
      fake: { provider: 'openai', model: 'fake-1', base_url: openaiUrl, api_key: 'sk-fake-key' },
    },
    ...more,
  };
}
