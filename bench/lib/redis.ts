// A real redis-server of the benchmark's own: a free port on loopback, a directory that is removed afterwards.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from './process.ts';

/** When an append reaches the disk. docker-compose.yml ships `always`; `off` has no append-only file at all. */
export type Fsync = 'always' | 'everysec' | 'off';

export interface BenchRedis {
  url: string;
  pid: number;
  /** A connection of the benchmark's own, counted out of what it reports. */
  client: Redis;
  stop(): Promise<void>;
}

export async function startRedis(fsync: Fsync): Promise<BenchRedis> {
  const port = await freePort();
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-bench-redis-'));
  const persistence =
    fsync === 'off' ? ['--appendonly', 'no'] : ['--appendonly', 'yes', '--appendfsync', fsync];
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '', ...persistence];
  const child = spawn('redis-server', [...args, '--maxclients', '10000'], { stdio: 'ignore' });
  await Promise.race([
    once(child, 'spawn'),
    once(child, 'error').then(([error]) => {
      throw new Error('redis-server did not start: install it (apt-get install redis-server)', {
        cause: error,
      });
    }),
  ]);
  const url = `redis://127.0.0.1:${port}`;
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 20 });
  // Refusals until the server listens are expected; ioredis goes on trying, and ping resolves when it succeeds.
  client.on('error', () => undefined);
  await client.ping();
  return {
    url,
    pid: child.pid ?? 0,
    client,
    async stop() {
      client.disconnect();
      const gone = once(child, 'exit');
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        await gone;
      }
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** One section of INFO as a map. */
export async function info(client: Redis, section: string): Promise<Map<string, string>> {
  const text = await client.info(section);
  const lines = text.split('\r\n').filter((line) => line.includes(':'));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}
