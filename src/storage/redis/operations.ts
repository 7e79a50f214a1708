// What the adapters of this folder share: one script, one round trip, bounded in time.
import type { Connections } from './connection.ts';
import type { Channels } from './keys.ts';
import type { Reply, RunScript } from './scripts.ts';

/** Runs a script of scripts/. Rejects only with AppError 'storage_unavailable'. */
export type Operate = (
  script: string,
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<Reply>;

export interface RedisContext {
  operate: Operate;
  connections: Connections;
  channels: Channels;
}

export function createOperate(connections: Connections, run: RunScript): Operate {
  return (script, keys, args) => connections.call((client) => run(client, script, keys, args));
}

/** An entry of a list: what a script must know of it on the first line, so that it needs no JSON, then the JSON. */
export const entryOf = (head: string, value: unknown): string => `${head}\n${JSON.stringify(value)}`;

export const jsonOf = (entry: string): string => entry.slice(entry.indexOf('\n') + 1);

export const valueOf = (entry: string): unknown => JSON.parse(jsonOf(entry));

export const texts = (reply: Reply | undefined): string[] => reply as string[];
