// A real Redis Cluster on this machine: three masters that share the slots, and a replica of one of them.
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePort, startRedis, type RedisServer } from './redis-server.ts';

export interface RedisCluster {
  /** For storage.url. */
  url: string;
  masters: RedisServer[];
  /** With `replicaOf`: the master that has the key, and its replica. */
  pair(): { primary: RedisServer; replica: RedisServer };
  /** Runs something on each node, one after the other. */
  each<T>(work: (client: Redis, server: RedisServer) => Promise<T>): Promise<T[]>;
  /** Moves the slot of a key to another master, with all that is in it, as resharding does. */
  move(key: string): Promise<void>;
  close(): Promise<void>;
}

export interface RedisClusterOptions {
  /** The master that has this key gets a replica. */
  replicaOf?: string;
  /** How long a node may be silent before the others take it for dead. Long: a busy machine is no failure. */
  nodeTimeoutMs?: number;
  args?: string[];
}

const MASTERS = 3;
const SLOTS = 16_384;

export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const { replicaOf, nodeTimeoutMs = 30_000 } = options;
  const count = MASTERS + (replicaOf === undefined ? 0 : 1);
  const servers: RedisServer[] = [];
  const busPorts: number[] = [];
  const clients = new Map<RedisServer, Redis>();
  const clientOf = (server: RedisServer): Redis => {
    const client = clients.get(server) ?? new Redis(server.url);
    clients.set(server, client);
    return client;
  };
  const hangUp = () => {
    for (const client of clients.values()) client.disconnect();
    clients.clear();
  };
  const close = async () => {
    hangUp();
    await Promise.all(servers.map((server) => server.close()));
  };

  try {
    for (let n = 0; n < count; n += 1) {
      const busPort = await freePort();
      const args = ['--cluster-enabled', 'yes', '--cluster-port', `${busPort}`]
        // Short until the cluster stands: nodes wait for as long before they trust each other.
        .concat(['--cluster-node-timeout', '500', '--cluster-replica-validity-factor', '0'])
        .concat(['--cluster-allow-replica-migration', 'no', '--repl-diskless-sync-delay', '0'])
        .concat(options.args ?? []);
      servers.push(await startRedis({ args }));
      busPorts.push(busPort);
    }
    const masters = servers.slice(0, MASTERS);
    const firstSlot = (n: number) => Math.floor((n * SLOTS) / MASTERS);
    for (const [n, master] of masters.entries()) {
      const client = clientOf(master);
      await client.call('CLUSTER', 'ADDSLOTSRANGE', firstSlot(n), firstSlot(n + 1) - 1);
      await client.call('CLUSTER', 'SET-CONFIG-EPOCH', n + 1);
    }
    for (const [n, server] of servers.entries()) {
      if (n > 0) await clientOf(masters[0]!).call('CLUSTER', 'MEET', '127.0.0.1', server.port, busPorts[n]!);
    }
    await until(async () => {
      const infos = await Promise.all(servers.map((server) => clientOf(server).call('CLUSTER', 'INFO')));
      return infos.every(
        (info) =>
          String(info).includes('cluster_state:ok') &&
          String(info).includes(`cluster_known_nodes:${servers.length}`) &&
          String(info).includes(`cluster_slots_ok:${SLOTS}`),
      );
    });
    const [replica] = servers.slice(MASTERS);
    let primary: RedisServer | undefined;
    if (replica && replicaOf !== undefined) {
      const slot = Number(await clientOf(masters[0]!).call('CLUSTER', 'KEYSLOT', replicaOf));
      primary = masters.findLast((_, n) => firstSlot(n) <= slot)!;
      const id = String(await clientOf(primary).call('CLUSTER', 'MYID'));
      await clientOf(replica).call('CLUSTER', 'REPLICATE', id);
      await until(async () =>
        (await clientOf(replica).info('replication')).includes('master_link_status:up'),
      );
    }
    for (const server of servers) await clientOf(server).config('SET', 'cluster-node-timeout', nodeTimeoutMs);
    // Nodes may be killed from now on.
    hangUp();

    return {
      url: `redis-cluster://${masters.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
      masters,
      pair() {
        if (!primary || !replica) throw new Error('startRedisCluster() was not asked for a replica');
        return { primary, replica };
      },
      async each(work) {
        const results = [];
        for (const server of servers) results.push(await work(clientOf(server), server));
        hangUp();
        return results;
      },
      async move(key) {
        const slot = Number(await clientOf(masters[0]!).call('CLUSTER', 'KEYSLOT', key));
        const from = masters.findLastIndex((_, n) => firstSlot(n) <= slot);
        await moveSlot(slot, clientOf(masters[from]!), clientOf(masters[(from + 1) % MASTERS]!));
        hangUp();
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function moveSlot(slot: number, from: Redis, to: Redis): Promise<void> {
  const [fromId, toId] = await Promise.all(
    [from, to].map(async (node) => String(await node.call('CLUSTER', 'MYID'))),
  );
  await to.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId!);
  await from.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId!);
  for (;;) {
    const keys = (await from.call('CLUSTER', 'GETKEYSINSLOT', slot, 10)) as string[];
    if (keys.length === 0) break;
    await from.call('MIGRATE', '127.0.0.1', to.options.port!, '', 0, 5_000, 'KEYS', ...keys);
  }
  for (const node of [to, from]) await node.call('CLUSTER', 'SETSLOT', slot, 'NODE', toId!);
}

/** Nodes hear of each other by gossip, and nobody tells when they have. */
async function until(done: () => Promise<boolean>): Promise<void> {
  while (!(await done())) await delay(20);
}
