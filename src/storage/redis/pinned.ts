// In a Redis Cluster all queues share one hash slot, so that what works with them needs one node: a plain connection to
// whichever node is the primary of that slot, looked up before each attempt to connect, as ioredis does with Sentinels.
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis';
import { addressOf, type RedisNode } from './address.ts';
import { reasonOf } from './reporter.ts';

/** How long one node may take to answer where the slot is. */
const ASK_MS = 1_000;
const PAUSE_MS = 250;

export interface SlotOptions {
  /** The slot of this key. */
  key: string;
  /** Nodes to begin with; others are learned from them. */
  nodes: readonly RedisNode[];
  options: RedisOptions;
}

/** Finds the primary of a slot. Rejects if no node knows. */
export function createLocator({ key, nodes, options }: SlotOptions): () => Promise<RedisNode> {
  let known: RedisNode[] = [...nodes];
  let asking: Promise<RedisNode> | undefined;

  async function ask(node: RedisNode): Promise<RedisNode> {
    const client = new Redis({
      ...options,
      ...node,
      lazyConnect: true,
      enableReadyCheck: false,
      retryStrategy: () => null,
      connectTimeout: ASK_MS,
      commandTimeout: ASK_MS,
    });
    let reason: unknown;
    client.on('error', (error: Error) => (reason = error));
    try {
      const [slot, ranges] = await Promise.all([client.cluster('KEYSLOT', key), client.cluster('SLOTS')]);
      return read(node, slot, ranges);
    } catch (error) {
      throw reason ?? error;
    } finally {
      client.disconnect();
    }
  }

  function read(from: RedisNode, slot: number, ranges: SlotRange[]): RedisNode {
    const members = new Map([...nodes, from].map((node) => [addressOf(node), node]));
    let owner: RedisNode | undefined;
    for (const [first, last, ...servers] of ranges) {
      for (const [index, [host, port]] of servers.entries()) {
        // No name: as the one that was asked. https://redis.io/docs/latest/commands/cluster-slots/
        const node = { host: host || from.host, port };
        members.set(addressOf(node), node);
        if (index === 0 && first <= slot && slot <= last) owner = node;
      }
    }
    if (!owner) throw new Error(`CLUSTERDOWN no node of the Redis Cluster serves slot ${slot}`);
    // Whoever answered is asked first the next time.
    known = [from, ...[...members.values()].filter((node) => addressOf(node) !== addressOf(from))];
    return owner;
  }

  async function locate(): Promise<RedisNode> {
    let reason: unknown;
    for (const node of known) {
      try {
        return await ask(node);
      } catch (error) {
        reason = error;
        // A node that is silent is asked last.
        known = [...known.filter((other) => other !== node), node];
      }
    }
    throw reason;
  }

  return () => (asking ??= locate().finally(() => (asking = undefined)));
}

/** What ioredis' Connector option takes: its sockets lead to where `locate` says. */
export function connectorTo(
  locate: () => Promise<RedisNode>,
  { family = 0, tls }: Pick<RedisOptions, 'family' | 'tls'>,
): NonNullable<RedisOptions['Connector']> {
  return class extends AbstractConnector {
    #ended = new AbortController();

    constructor() {
      super(2_000);
    }

    /** A rejection would end the client for good: looking goes on until the client is disconnected. */
    override async connect(tell: (event: string, error: Error) => void) {
      this.#ended = new AbortController();
      const { signal } = this.#ended;
      for (;;) {
        try {
          const node = await locate();
          signal.throwIfAborted();
          const to = { family, ...node };
          this.stream = tls ? connectTls({ ...tls, ...to }) : createConnection(to);
          this.stream.once('error', (error: Error) => (this.firstError = error));
          return this.stream;
        } catch (error) {
          if (signal.aborted) throw new Error('Connection is closed.', { cause: error });
          tell('error', new Error(`no node of the Redis Cluster can be asked (${reasonOf(error)})`));
          await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
        }
      }
    }

    override disconnect(): void {
      this.#ended.abort();
      super.disconnect();
    }

    /** Looked up again if the node is no primary any more. */
    override check({ role }: { role?: string }): boolean {
      return role === undefined || role === 'master';
    }
  };
}

type SlotRange = [first: number, last: number, ...servers: [host: string, port: number, ...unknown[]][]];
