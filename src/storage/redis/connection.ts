// The connections to Redis: one for commands, one for pub/sub, two more for each queue that works; to a Redis Cluster one
// for commands to each of its nodes, and one to the node that has the queues.
import type { Redis } from 'ioredis';
import type { Logger } from '../../ports/log.ts';
import { parseAddress } from './address.ts';
import { createCaller, type Call } from './caller.ts';
import { createClients, type Client, type ClientOptions } from './clients.ts';
import { cutClient, endClient } from './ending.ts';

export interface ConnectionOptions {
  url: string;
  tls?: ClientOptions['tls'];
  log: Logger;
  timeoutMs: number;
}

export interface Connections {
  /** Hosts and ports, without credentials: safe to show. */
  address: string;
  /** Keys of another one are not seen, but what is published there is. */
  database: number;
  kind: 'single' | 'cluster' | 'sentinel';
  /** False while Redis is away: best-effort writers don't wait for it. */
  ready(): boolean;
  /** Runs commands where their keys are, bounded in time. Rejects only with AppError 'storage_unavailable'. */
  call: Call<Client>;
  /** Where the queues are; of a cluster, one node. */
  queues: Redis;
  callQueues: Call<Redis>;
  subscriber: Redis;
  callSubscriber: Call<Redis>;
  /** Connections for a BullMQ worker: their commands wait for Redis to return. The caller ends them. */
  openWorker(name: string): WorkerConnections;
  /** For one look at a server beside the one that is used, such as a replica. The caller ends it. */
  openOnce(host: string, port: number): Redis;
  /** The servers that are written to: one, or a cluster's primaries as far as they are known. */
  servers(): Redis[];
  close(): Promise<void>;
}

interface WorkerConnections {
  client: Redis;
  /** Ends it and the copy that BullMQ made for its blocking command, at once. */
  cut(): Promise<void>;
}

export function createConnections({ url, tls, log, timeoutMs }: ConnectionOptions): Connections {
  const address = parseAddress(url);
  const clients = createClients({ address, ...(tls ? { tls } : {}), timeoutMs, log });
  const commands = clients.open('commands');
  const queues = 'nodes' in commands ? clients.openPinned('queues', { patient: false }) : commands;
  const subscriber = clients.openPinned('subscriber', { patient: false });
  const all = new Set<Client>([commands, queues, subscriber]);
  const callerOf = <C extends Client>(client: C) => createCaller(client, address.text, timeoutMs);
  let closing: Promise<void> | undefined;

  return {
    address: address.text,
    database: address.database,
    kind: address.kind,
    ready: () => commands.status === 'ready',
    call: callerOf(commands),
    queues,
    callQueues: callerOf(queues),
    subscriber,
    callSubscriber: callerOf(subscriber),
    openWorker(name) {
      const client = clients.openPinned(name, { patient: true });
      const opened = [client];
      const duplicate = client.duplicate.bind(client);
      client.duplicate = (override) => {
        const copy = clients.report(duplicate(override), `${name} (blocking)`);
        opened.push(copy);
        return copy;
      };
      return { client, cut: async () => void (await Promise.all(opened.map(cutClient))) };
    },
    openOnce: clients.openOnce,
    servers: () => ('nodes' in commands ? commands.nodes('master') : [commands]),
    close: () => (closing ??= Promise.all([...all].map((client) => endClient(client))).then(() => undefined)),
  };
}

export function isConnectionError(error: Error): boolean {
  const { syscall, code } = error as NodeJS.ErrnoException;
  return (
    syscall !== undefined ||
    code !== undefined ||
    /^(Connection is closed|Socket timeout)/.test(error.message)
  );
}
