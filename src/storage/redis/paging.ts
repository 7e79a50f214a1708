// Pages over sorted sets that are spread over all shards.
import type { Connections } from './connection.ts';
import { SHARDS, shardKeys, type ShardKeys } from './keys.ts';

export interface Member {
  shard: number;
  member: string;
  score: number;
}

/** Up to `limit` members of all shards by score, `cursor` being the last member of the page before. */
export async function pageByScore(
  { call }: Connections,
  options: {
    set: 'activity' | 'parkedAt' | 'failedAt';
    newestFirst: boolean;
    cursor?: string;
    limit: number;
  },
): Promise<{ members: Member[]; cursor?: string }> {
  const { set, newestFirst, limit } = options;
  const after = options.cursor === undefined ? undefined : parseCursor(options.cursor);
  // Not one of ours: there is no such page.
  if (options.cursor !== undefined && !after) return { members: [] };
  const order = (a: Pick<Member, 'member' | 'score'>, b: Pick<Member, 'member' | 'score'>): number => {
    const ascending = a.score - b.score || Buffer.compare(Buffer.from(a.member), Buffer.from(b.member));
    return newestFirst ? -ascending : ascending;
  };

  async function ofShard(shard: number): Promise<Member[]> {
    const key = shardKeys(shard)[set];
    const found: Member[] = [];
    // Members that share the cursor's score may be before it: they are passed over, and more are fetched for them.
    for (let offset = 0; ; offset += limit) {
      const start = after?.score ?? (newestFirst ? '+inf' : '-inf');
      const rows = await call((client) =>
        newestFirst
          ? client.zrevrangebyscore(key, start, '-inf', 'WITHSCORES', 'LIMIT', offset, limit)
          : client.zrangebyscore(key, start, '+inf', 'WITHSCORES', 'LIMIT', offset, limit),
      );
      for (let i = 0; i + 1 < rows.length; i += 2) {
        const row = { shard, member: rows[i]!, score: Number(rows[i + 1]) };
        if (!after || order(row, after) > 0) found.push(row);
      }
      if (found.length >= limit || rows.length < 2 * limit) return found;
    }
  }

  const shards = await Promise.all(Array.from({ length: SHARDS }, (_, shard) => ofShard(shard)));
  const all = shards.flat().sort(order);
  const members = all.slice(0, limit);
  const last = members.at(-1);
  return all.length > limit && last ? { members, cursor: `${last.score}:${last.member}` } : { members };
}

function parseCursor(cursor: string): { score: number; member: string } | undefined {
  const match = /^(\d{1,15}):(.*)$/s.exec(cursor);
  return match ? { score: Number(match[1]), member: match[2]! } : undefined;
}

/** All names in a set of a shard, from the one after `after` on; what is added or removed meanwhile may be missed. */
export async function* namesOf(
  { call }: Connections,
  shard: number,
  set: Extract<keyof ShardKeys, 'pending' | 'outboxes'>,
  after?: string,
): AsyncGenerator<string, void, undefined> {
  const key = shardKeys(shard)[set];
  const size = 200;
  let start = after === undefined ? '-' : `(${after}`;
  for (;;) {
    const names = await call((client) => client.zrangebylex(key, start, '+', 'LIMIT', 0, size));
    yield* names;
    if (names.length < size) return;
    start = `(${names.at(-1)}`;
  }
}
