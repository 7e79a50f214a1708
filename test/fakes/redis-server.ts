// A real redis-server on a free port and a folder of its own, with an append-only file: stopped, killed, and started
// again on the same port and data.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Redis } from 'ioredis';

export interface RedisServer {
  url: string;
  port: number;
  dir: string;
  /** Process id, while it runs. */
  pid(): number;
  /** Ends it; what was acknowledged is in its files. SIGKILL: as a crash does. */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Starts it again on the same port and data, with more arguments. Resolves when it takes commands. */
  start(more?: string[]): Promise<void>;
  /** Ends it and removes its data. */
  close(): Promise<void>;
}

export interface RedisServerOptions {
  /** More arguments, such as `--maxmemory-policy allkeys-lru`. Later ones win. */
  args?: string[];
  /** False: the port is chosen, and start() has to be called. */
  started?: boolean;
  /** Runs as a Redis Cluster of this one node, which has all slots and refuses commands over several. */
  cluster?: boolean;
}

export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-redis-'));
  const port = await freePort();
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', dir, '--save', '']
    .concat(['--appendonly', 'yes', '--appendfsync', 'always'])
    .concat(
      options.cluster
        ? [
            '--cluster-enabled',
            'yes',
            '--cluster-port',
            `${await freePort()}`,
            '--cluster-announce-ip',
            '127.0.0.1',
          ]
        : [],
    )
    .concat(options.args ?? []);
  let child: ChildProcess | undefined;
  let exited: Promise<unknown> | undefined;

  const server: RedisServer = {
    url: `redis://127.0.0.1:${port}`,
    port,
    dir,
    pid() {
      if (child?.pid === undefined) throw new Error('redis-server is not running');
      return child.pid;
    },
    async stop(signal = 'SIGTERM') {
      child?.kill(signal);
      await exited;
      child = undefined;
    },
    async start(more = []) {
      child = spawn('redis-server', [...args, ...more], { stdio: ['ignore', 'pipe', 'inherit'] });
      exited = once(child, 'close');
      await printed(child, 'Ready to accept connections');
      if (options.cluster) await takeAllSlots(server.url);
    },
    async close() {
      await server.stop('SIGKILL');
      await rm(dir, { recursive: true, force: true });
    },
  };
  if (options.started !== false) await server.start();
  return server;
}

/** Resolves when a redis-server has printed the text; rejects with all it printed if it ends before. */
export function printed(server: ChildProcess, text: string): Promise<void> {
  const lines: string[] = [];
  return new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.once('close', () => reject(new Error(`redis-server ended:\n${lines.join('\n')}`)));
    createInterface({ input: server.stdout! }).on('line', (line) => {
      lines.push(line);
      if (line.includes(text)) resolve();
    });
  });
}

async function takeAllSlots(url: string): Promise<void> {
  const client = new Redis(url);
  try {
    const state = () => client.call('CLUSTER', 'INFO').then(String);
    if (!(await state()).includes('cluster_slots_assigned:16384')) {
      await client.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    }
    while (!(await state()).includes('cluster_state:ok')) await nextTurn();
  } finally {
    client.disconnect();
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
