// The settings of Redis that the promises depend on, looked at once on every server that is used or may be: the primary or
// the cluster's primaries, and their replicas.
import type { Redis } from 'ioredis';
import type { Logger } from '../../ports/log.ts';
import { addressOf } from './address.ts';
import type { Connections } from './connection.ts';
import { reasonOf } from './reporter.ts';

interface Seen {
  /** host:port */
  server: string;
  /** INFO, all of it. */
  info: string;
  /** Undefined: hosted services may not let anybody ask. */
  fsync: string | undefined;
}

interface Finding {
  level: 'warn' | 'info';
  text: string;
}

/** Logs each finding once, with the servers that it is true of. */
export async function lookAtSettings(connections: Connections, log: Logger): Promise<void> {
  const { call, openOnce, servers } = connections;

  async function seenBy(
    server: string,
    ask: <T>(send: (client: Redis) => Promise<T>) => Promise<T>,
  ): Promise<Seen[]> {
    try {
      const info = await ask((client) => client.info());
      const reply: unknown = await ask((client) => client.config('GET', 'appendfsync')).catch(() => []);
      return [{ server, info, fsync: Array.isArray(reply) ? (reply[1] as string | undefined) : undefined }];
    } catch (error) {
      log.info({ server, reason: reasonOf(error) }, `the settings of Redis at ${server} can't be looked at`);
      return [];
    }
  }

  async function seenOnce(host: string, port: number): Promise<Seen[]> {
    const client = openOnce(host, port);
    client.on('error', (error: Error) => log.debug({ reason: reasonOf(error) }, 'a replica is not reached'));
    try {
      return await seenBy(addressOf({ host, port }), (send) => send(client));
    } finally {
      client.disconnect();
    }
  }

  const primaries = await Promise.all(
    servers().map((server) => seenBy(placeOf(server), (send) => call(() => send(server)))),
  );
  const replicas = await Promise.all(
    primaries.flat().flatMap(({ info }) => replicasOf(info).map(({ host, port }) => seenOnce(host, port))),
  );
  const where = new Map<string, { level: Finding['level']; servers: string[] }>();
  for (const seen of [...primaries, ...replicas].flat()) {
    for (const { level, text } of findings(seen)) {
      const known = where.get(text) ?? { level, servers: [] };
      where.set(text, known);
      known.servers.push(seen.server);
    }
  }
  for (const [text, { level, servers: at }] of where)
    log[level]({ servers: at }, `${text} (${at.join(', ')})`);
}

function findings({ info, fsync }: Seen): Finding[] {
  const found: Finding[] = [];
  const policy = field(info, 'maxmemory_policy');
  if (policy !== undefined && policy !== 'noeviction') {
    found.push({
      level: 'warn',
      text: `Redis may evict conversations when it is full (maxmemory-policy ${policy}): set maxmemory-policy to noeviction`,
    });
  }
  if (field(info, 'aof_enabled') === '0') {
    found.push({
      level: 'warn',
      text: 'Redis loses acknowledged messages when it crashes: set appendonly to yes, appendfsync to always',
    });
  } else if (fsync === 'no') {
    found.push({
      level: 'warn',
      text: 'Redis loses acknowledged messages when its machine crashes: set appendfsync to always, or to everysec',
    });
  } else if (fsync === 'everysec') {
    found.push({
      level: 'info',
      text: "Redis may lose a second's acknowledged messages when its machine crashes; appendfsync always keeps all",
    });
  }
  // INFO has the number of good replicas only where some are asked for.
  if (replicasOf(info).length > 0 && field(info, 'min_slaves_good_slaves') === undefined) {
    found.push({
      level: 'warn',
      text: 'Redis takes messages that no replica gets, and a failover loses them: set min-replicas-to-write to 1',
    });
  }
  return found;
}

const field = (info: string, name: string): string | undefined =>
  new RegExp(`^${name}:(\\S*)`, 'm').exec(info)?.[1];

function replicasOf(info: string): { host: string; port: number }[] {
  return [...info.matchAll(/^slave\d+:ip=([^,\s]+),port=(\d+)/gm)].map(([, host = '', port]) => ({
    host,
    port: Number(port),
  }));
}

function placeOf({ options, stream }: Redis): string {
  // Behind Sentinels the options don't say who the primary is.
  const { remoteAddress: host = options.host ?? 'localhost', remotePort: port = options.port ?? 0 } =
    stream ?? {};
  return addressOf({ host, port });
}
