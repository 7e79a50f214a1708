// The real server as a child process, configured by a file of its own, with the benchmark's model server beside it.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, closeSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import { z } from 'zod';
import { freePort } from './process.ts';

const root = join(import.meta.dirname, '..', '..');

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  await gone;
}

export interface ModelServer {
  url: string;
  /** How long each call since the last asking took inside the model server, oldest first. */
  timings(): Promise<number[]>;
  /** The body of the first call. */
  first(): Promise<string>;
  stop(): Promise<void>;
}

export async function startModel(): Promise<ModelServer> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'model.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data');
  const { port } = z.object({ port: z.number() }).parse(JSON.parse(String(line)));
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    async timings() {
      const response = await fetch(`${url}/timings`);
      return z.array(z.number()).parse(await response.json());
    },
    first: async () => (await fetch(`${url}/first`)).text(),
    stop: () => stopChild(child),
  };
}

export interface BenchServer {
  url: string;
  account: string;
  key: string;
  pid: number;
  /** From the command to the first 200 of /readyz. */
  readyMs: number;
  stop(): Promise<void>;
}

export interface ServerOptions {
  /** Empty: embedded. */
  redisUrl: string;
  modelUrl: string;
  /** Default: one that the server makes. */
  adminToken?: string;
  /** More settings, in whole sections. */
  overlay?: Record<string, unknown>;
  /** Start as a person would; `pid` is npm's then. */
  npm?: boolean;
  /** Given to node before the script, such as --cpu-prof. */
  nodeArgs?: string[];
}

/** Those of `npm start`. */
const NODE_FLAGS = ['--max-semi-space-size=16'];
const KEY = 'benchmark-key-of-the-webhook';

export async function startServer(options: ServerOptions): Promise<BenchServer> {
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-bench-'));
  const port = await freePort();
  const config = join(dir, 'config.yaml');
  const overlay = {
    storage: { url: options.redisUrl, data_dir: join(dir, 'data') },
    model: 'bench',
    models: {
      bench: { provider: 'openai', model: 'bench', base_url: `${options.modelUrl}/v1`, api_key: 'none' },
    },
    channels: { bench: { type: 'webhook', api_keys: [KEY], limits: { per_minute: 100_000_000 } } },
    ...options.overlay,
  };
  await writeFile(config, stringify(overlay));
  // Logs go to a file at the default level, as an operator would have it.
  const log = join(dir, 'server.log');
  const out = openSync(log, 'a');
  const started = performance.now();
  const [command, args] = options.npm
    ? ['npm', ['start', '--silent']]
    : [process.execPath, [...NODE_FLAGS, ...(options.nodeArgs ?? []), join(root, 'scripts', 'start.mjs')]];
  const child = spawn(command, args, {
    stdio: ['ignore', out, out],
    cwd: root,
    env: {
      PATH: process.env.PATH,
      HOME: dir,
      LANEKEEPER_CONFIG: config,
      PORT: String(port),
      ADMIN_TOKEN: options.adminToken,
    },
  });
  closeSync(out);
  const url = `http://127.0.0.1:${port}`;
  const stop = async (): Promise<void> => {
    await stopChild(child);
    await rm(dir, { recursive: true, force: true });
  };
  while (!(await ready(url))) {
    if (child.exitCode !== null || performance.now() - started > 30_000) {
      const text = await readFile(log, 'utf8');
      await stop();
      throw new Error(`the server did not become ready:\n${text.slice(-4000)}`);
    }
    await sleep(5);
  }
  return { url, account: 'bench', key: KEY, pid: child.pid ?? 0, readyMs: performance.now() - started, stop };
}

/** One look at /readyz; a refused connection is a no. */
async function ready(url: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const outgoing = get(`${url}/readyz`, { agent: false }, (incoming) => {
    incoming.resume();
    resolve(incoming.statusCode === 200);
  });
  outgoing.on('error', () => resolve(false));
  return promise;
}
