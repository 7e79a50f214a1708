// A real Redis with a replica, and three Sentinels that watch over them.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePort, printed, startRedis, type RedisServer } from './redis-server.ts';

export interface RedisSentinels {
  /** For storage.url. */
  url: string;
  primary: RedisServer;
  replica: RedisServer;
  close(): Promise<void>;
}

const PRIMARY = 'mymaster';
const SENTINELS = 3;

export async function startRedisSentinels(options: { args?: string[] } = {}): Promise<RedisSentinels> {
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-sentinel-'));
  const servers: RedisServer[] = [];
  const sentinels: ChildProcess[] = [];
  const ports: number[] = [];
  const close = async () => {
    const ended = sentinels.map((sentinel) => sentinel.exitCode ?? once(sentinel, 'close'));
    for (const sentinel of sentinels) sentinel.kill('SIGKILL');
    await Promise.all([...ended, ...servers.map((server) => server.close())]);
    await rm(dir, { recursive: true, force: true });
  };

  try {
    const args = ['--repl-diskless-sync-delay', '0', ...(options.args ?? [])];
    const primary = await startRedis({ args });
    servers.push(primary);
    const replica = await startRedis({ args: [...args, '--replicaof', '127.0.0.1', `${primary.port}`] });
    servers.push(replica);
    await until(replica.url, async (client) =>
      (await client.info('replication')).includes('master_link_status:up'),
    );
    for (let n = 0; n < SENTINELS; n += 1) {
      const port = await freePort();
      const file = join(dir, `${n}.conf`);
      await writeFile(file, sentinelConfig(port, primary.port));
      const sentinel = spawn('redis-server', [file, '--sentinel'], { stdio: ['ignore', 'pipe', 'inherit'] });
      sentinels.push(sentinel);
      ports.push(port);
      await printed(sentinel, `+monitor master ${PRIMARY}`);
    }
    for (const port of ports) {
      await until(`redis://127.0.0.1:${port}`, async (client) => {
        const quorum = await client.call('SENTINEL', 'CKQUORUM', PRIMARY).catch(String);
        const replicas = (await client.call('SENTINEL', 'REPLICAS', PRIMARY)) as unknown[];
        return String(quorum).startsWith(`OK ${SENTINELS} usable`) && replicas.length === 1;
      });
    }
    return {
      url: `redis-sentinel://${ports.map((port) => `127.0.0.1:${port}`).join(',')}/${PRIMARY}`,
      primary,
      replica,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const sentinelConfig = (port: number, primary: number): string =>
  [
    `port ${port}`,
    'bind 127.0.0.1',
    `sentinel monitor ${PRIMARY} 127.0.0.1 ${primary} 2`,
    `sentinel down-after-milliseconds ${PRIMARY} 1000`,
    // A promotion that takes longer is given up: on a busy machine it may take seconds.
    `sentinel failover-timeout ${PRIMARY} 10000`,
    '',
  ].join('\n');

/** Sentinels find each other by and by, and nobody tells when they have. */
async function until(url: string, done: (client: Redis) => Promise<boolean>): Promise<void> {
  const client = new Redis(url);
  try {
    while (!(await done(client))) await delay(20);
  } finally {
    client.disconnect();
  }
}
