// storage.url taken apart: one Redis, some nodes of a Redis Cluster, or the Sentinels that know where the primary is.
import { AppError } from '../../domain/errors.ts';

export interface RedisAddress {
  kind: 'single' | 'cluster' | 'sentinel';
  /** The Redis; nodes of the cluster to begin with; or the sentinels. */
  nodes: RedisNode[];
  /** What the sentinels call the primary. */
  primary?: string;
  database: number;
  credentials: Credentials;
  sentinelCredentials: Credentials;
  /** `rediss`: TLS to Redis, and to the sentinels. */
  tls: boolean;
  /** 4 or 6: only addresses of this kind. */
  family?: number;
  /** Hosts and ports, without credentials: safe to show. */
  text: string;
}

export interface RedisNode {
  host: string;
  port: number;
}

interface Credentials {
  username?: string;
  password?: string;
}

const FORMS =
  'redis://[user:password@]host[:port][/database], redis-cluster://host:port,host:port or ' +
  'redis-sentinel://host:port,host:port/name-of-the-primary; rediss instead of redis for TLS';
const SHAPE =
  /^(redis|rediss)(?:-(cluster|sentinel))?:\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i;
const HOST = /^(?:\[([\da-f:.]+)\]|([^\s:[\]]+))?(?::(\d{1,5}))?$/i;
const PARAMETERS = {
  single: ['family'],
  cluster: ['family'],
  sentinel: ['family', 'sentinel_username', 'sentinel_password'],
};

/** Throws AppError 'config_invalid'; nothing of the URL is in it, since any part may be a password in the wrong place. */
export function parseAddress(url: string): RedisAddress {
  const match = SHAPE.exec(url.trim());
  if (!match) throw invalid(`must look like ${FORMS}`);
  const [, scheme = '', form, userInfo = '', hosts = '', path = '', query = ''] = match;
  const kind = (form?.toLowerCase() ?? 'single') as RedisAddress['kind'];
  const nodes = hosts
    .split(',')
    .map((host) => parseNode(host, kind === 'sentinel' ? 26_379 : 6_379, kind === 'single'));
  if (kind === 'single' && nodes.length > 1) {
    throw invalid(
      'names several hosts: write redis-cluster://… for a Redis Cluster, redis-sentinel://…/name for Sentinels',
    );
  }
  const parameters = parseQuery(query, PARAMETERS[kind]);
  const family = parameters.get('family') ?? undefined;
  if (family !== undefined && family !== '4' && family !== '6') throw invalid('has family neither 4 nor 6');
  return {
    kind,
    nodes,
    ...parsePath(kind, decoded(path)),
    credentials: credentials(...splitUser(userInfo)),
    sentinelCredentials: credentials(
      parameters.get('sentinel_username'),
      parameters.get('sentinel_password'),
    ),
    tls: scheme.toLowerCase() === 'rediss',
    ...(family === undefined ? {} : { family: Number(family) }),
    text: nodes.map(addressOf).join(','),
  };
}

/** host:port */
export const addressOf = ({ host, port }: RedisNode): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

function parseNode(text: string, defaultPort: number, mayBeEmpty: boolean): RedisNode {
  const [, v6, name, port] = HOST.exec(text) ?? [];
  const host = v6 ?? name ?? (mayBeEmpty && HOST.test(text) ? 'localhost' : undefined);
  const number = port === undefined ? defaultPort : Number(port);
  if (host === undefined || number < 1 || number > 65_535) {
    throw invalid(
      `needs host or host:port, with commas between several (${FORMS}); in a password write / ? # @ % as %2F %3F %23 %40 %25`,
    );
  }
  return { host, port: number };
}

function parsePath(kind: RedisAddress['kind'], path: string): { database: number; primary?: string } {
  if (kind !== 'sentinel') return { database: parseDatabase(path, kind) };
  const [primary = '', database = ''] = path.split('/', 2);
  if (primary === '')
    throw invalid('needs the name that the sentinels give the primary: redis-sentinel://host:port/mymaster');
  return { primary, database: parseDatabase(database, kind) };
}

function parseDatabase(text: string, kind: RedisAddress['kind']): number {
  if (text === '') return 0;
  if (!/^\d{1,5}$/.test(text)) throw invalid('ends in something that is not the number of a database');
  const database = Number(text);
  if (kind === 'cluster' && database > 0)
    throw invalid('names a database, but a Redis Cluster has only number 0');
  return database;
}

function parseQuery(query: string, known: string[]): URLSearchParams {
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys())
    if (!known.includes(name)) throw invalid(`may have no parameters but ${known.join(', ')}`);
  return parameters;
}

function splitUser(userInfo: string): [username: string, password: string] {
  const colon = userInfo.indexOf(':');
  // `redis://password@host` would be a user without a password.
  if (colon === -1 && userInfo !== '')
    throw invalid('has a user but no password: write user:password@ or :password@');
  return [decoded(userInfo.slice(0, Math.max(0, colon))), decoded(userInfo.slice(colon + 1))];
}

const credentials = (username: string | null, password: string | null): Credentials => ({
  ...(username ? { username } : {}),
  ...(password ? { password } : {}),
});

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid('has a % that is not part of an escape such as %25');
  }
}

const invalid = (what: string): AppError => new AppError('config_invalid', `storage.url ${what}`);
