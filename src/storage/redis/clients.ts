// Makes clients for one Redis, a Redis Cluster, or a primary that Sentinels know. All of them go on connecting for good,
// find the new primary after a failover, and are reported once when they fail and once when they are back.
import type { ConnectionOptions } from 'node:tls';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { Logger } from '../../ports/log.ts';
import type { RedisAddress } from './address.ts';
import { QUEUE_PREFIX } from './keys.ts';
import { connectorTo, createLocator } from './pinned.ts';
import { createReporter, type Reporter } from './reporter.ts';

export type Client = Redis | Cluster;

export interface ClientOptions {
  address: RedisAddress;
  /** Certificates for `rediss`, beyond those that Node trusts. */
  tls?: { ca?: string; cert?: string; key?: string };
  /** How long a node of a cluster may be silent with commands on their way to it. */
  timeoutMs: number;
  log: Logger;
}

export interface Clients {
  /** Sends each command where its key is. In flight when a connection breaks, or refused: rejects at once. */
  open(name: string): Client;
  /**
   * Stays with one server: the Redis, the primary, or the node of the cluster that has the queues. `patient`: commands
   * wait for as long as it is away, else they reject at once.
   */
  openPinned(name: string, options: { patient: boolean }): Redis;
  /** Reports what a client says of its connection. */
  report<C extends Client>(client: C, name: string): C;
  /** For one look at a server beside the one that is used, such as a replica. */
  openOnce(host: string, port: number): Redis;
}

const ADVICE = 'Redis connection failed; trying again. Check that Redis runs and storage.url is right';
const retryDelay = (attempt: number): number =>
  Math.min(50 * 2 ** (attempt - 1), 1_000) + Math.random() * 100;
/** After a failover the old primary answers as a replica; a slot may be served by another node. */
const isElsewhere = (error: Error): boolean => /^(READONLY|MOVED)\b/.test(error.message);
/** A failover or a move of slots is not over, or replicas are missing. */
const isNotYet = (error: Error): boolean =>
  /^(ASK|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|LOADING|NOREPLICAS)\b/.test(error.message);

export function createClients({ address, tls, timeoutMs, log }: ClientOptions): Clients {
  const secure: ConnectionOptions | undefined = address.tls ? { ...tls } : undefined;
  const common: RedisOptions = {
    ...address.credentials,
    db: address.database,
    ...(address.family === undefined ? {} : { family: address.family }),
    ...(secure ? { tls: secure } : {}),
    connectTimeout: 5_000,
    maxLoadingRetryTime: 1_000,
    retryStrategy: retryDelay,
    reconnectOnError: isElsewhere,
  };
  const impatient: RedisOptions = {
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
  };
  const patient: RedisOptions = {
    maxRetriesPerRequest: null,
    // Sent again over a new connection, to whoever is the primary by then. Refused, a job that was done would be taken for stalled.
    reconnectOnError: (error) => (isElsewhere(error) || isNotYet(error) ? 2 : false),
    // Longer than the longest blocking command (10 s): a silent connection is replaced.
    socketTimeout: 15_000,
  };
  const place = placeOf(address, common, secure);
  const report = <C extends Client>(client: C, name: string): C => {
    watch(client, (node) =>
      createReporter(log, { connection: name, address: address.text, ...(node ? { node } : {}) }, ADVICE),
    );
    return client;
  };

  function openPinned(name: string, more: RedisOptions): Redis {
    return report(new Redis({ ...common, ...place, connectionName: `lanekeeper:${name}`, ...more }), name);
  }

  function openCluster(name: string): Cluster {
    const cluster = new Cluster([...address.nodes], {
      redisOptions: {
        ...common,
        ...impatient,
        // The cluster's client goes where MOVED says.
        reconnectOnError: () => false,
        connectionName: `lanekeeper:${name}`,
        // Replies of other nodes say nothing of a silent one. Twice: a process that was busy reads what has come before it expires.
        socketTimeout: 2 * timeoutMs,
      },
      clusterRetryStrategy: retryDelay,
      // Names stay names: certificates are made out to them.
      dnsLookup: (host, found) => found(null, host),
      // The caller is told at once, and repeats; what the cluster says of where a slot is now is followed.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      maxRedirections: 5,
    });
    return report(cluster, name);
  }

  return {
    open: (name) => (address.kind === 'cluster' ? openCluster(name) : openPinned(name, impatient)),
    openPinned: (name, how) => openPinned(name, how.patient ? patient : impatient),
    report,
    openOnce: (host, port) =>
      new Redis({
        ...common,
        host,
        port,
        lazyConnect: true,
        connectTimeout: timeoutMs,
        commandTimeout: timeoutMs,
        retryStrategy: () => null,
      }),
  };
}

/** Where the server is that a client stays with. */
function placeOf(
  address: RedisAddress,
  common: RedisOptions,
  secure: ConnectionOptions | undefined,
): RedisOptions {
  const { kind, nodes, primary, sentinelCredentials } = address;
  if (kind === 'single') return { ...nodes[0] };
  if (kind === 'cluster')
    return { Connector: connectorTo(createLocator({ key: QUEUE_PREFIX, nodes, options: common }), common) };
  return {
    sentinels: nodes,
    ...(primary === undefined ? {} : { name: primary }),
    ...(sentinelCredentials.username === undefined ? {} : { sentinelUsername: sentinelCredentials.username }),
    ...(sentinelCredentials.password === undefined ? {} : { sentinelPassword: sentinelCredentials.password }),
    ...(secure ? { enableTLSForSentinelMode: true, sentinelTLS: secure } : {}),
    // A primary that is only cut off answers still: the sentinels say when it is one no more.
    failoverDetector: true,
  };
}

function watch(client: Client, reporterOf: (node?: string) => Reporter): void {
  const reporter = reporterOf();
  client.on('error', (error: Error) => reporter.failed(error));
  client.on('sentinelError', (error: Error) => reporter.failed(error));
  client.on('ready', () => reporter.recovered());
  if (!(client instanceof Cluster)) return;
  const nodes = new Map<string, Reporter>();
  client.on('node error', (error: Error, node: string) => {
    const known = nodes.get(node) ?? reporterOf(node);
    nodes.set(node, known);
    known.failed(error);
  });
  client.on('+node', (node: Redis) => {
    node.on('ready', () => nodes.get(`${node.options.host}:${node.options.port}`)?.recovered());
  });
}
