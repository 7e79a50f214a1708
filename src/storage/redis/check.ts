// Storage.check() on Redis: a write and a read, that no part of a cluster is missing, and once a look at the settings.
import { randomUUID } from 'node:crypto';
import type { Logger } from '../../ports/log.ts';
import { unavailable } from './caller.ts';
import type { Connections } from './connection.ts';
import { lookAtSettings } from './settings.ts';

const KEY = 'lk:{s0}:check';
const SLOTS = '16384';

export function createCheck(connections: Connections, log: Logger): () => Promise<void> {
  const { call, callQueues, address, kind, servers } = connections;
  let looked: Promise<void> | undefined;

  async function writeAndRead(): Promise<void> {
    const written = randomUUID();
    const read = await call(async (client) => {
      await client.set(KEY, written, 'PX', 60_000);
      return client.get(KEY);
    });
    // Another process may check at the same time: any value will do.
    if (read === null) throw unavailable(`Redis at ${address} does not keep what is written to it`);
  }

  /** A cluster may serve some conversations and not others. */
  async function allNodes(): Promise<void> {
    const info = await callQueues((client) => client.cluster('INFO'));
    const [state, served] = ['state', 'slots_ok'].map(
      (name) => new RegExp(`^cluster_${name}:(\\w+)`, 'm').exec(info)?.[1],
    );
    if (state !== 'ok' || served !== SLOTS) {
      throw unavailable(
        `the Redis Cluster at ${address} serves ${served ?? 'an unknown number'} of its ${SLOTS} hash slots (state ${state ?? 'unknown'})`,
      );
    }
    await Promise.all(servers().map((server) => call(() => server.ping())));
  }

  return async () => {
    await writeAndRead();
    if (kind === 'cluster') await allNodes();
    looked ??= lookAtSettings(connections, log);
    await looked;
  };
}
