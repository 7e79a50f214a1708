// FailedMessages on Redis: a hash of records and a sorted set of their times in each shard.
import type { InboundMessage } from '../../domain/inbound.ts';
import type { FailedMessage, FailedMessages } from '../../ports/failed.ts';
import { conversationKeys, nameOf, shardKeys } from './keys.ts';
import { valueOf, type RedisContext } from './operations.ts';
import { pageByScore } from './paging.ts';

export function createFailed(
  { operate, connections, channels }: RedisContext,
  { dedupeMs }: { dedupeMs: number },
): FailedMessages {
  return {
    async list({ cursor, limit }) {
      const page = await pageByScore(connections, {
        set: 'failedAt',
        newestFirst: true,
        limit,
        ...(cursor === undefined ? {} : { cursor }),
      });
      const records = await Promise.all(
        page.members.map(async ({ shard, member, score }) => {
          const record = await connections.call((client) => client.hget(shardKeys(shard).failed, member));
          return record === null ? undefined : parse(record, score);
        }),
      );
      // Asked again between the two reads: gone.
      const items = records.filter((record) => record !== undefined);
      return page.cursor === undefined ? { items } : { items, cursor: page.cursor };
    },

    async retry(conversation, messageId) {
      const k = conversationKeys(conversation);
      const done = await operate(
        'failed-retry',
        [k.meta, k.inbox, k.seen, k.seenOrder, k.pending, k.activity, k.failed, k.failedAt],
        [nameOf(messageId), k.name, dedupeMs, channels.signals],
      );
      return done === 1;
    },
  };
}

/** `<run>\n<error as JSON>\n<inbox entry>`, as commit.lua writes it. */
function parse(record: string, at: number): FailedMessage {
  const [run = '', error = ''] = record.split('\n', 2);
  const entry = record.slice(run.length + error.length + 2);
  const { id, conversation, account, sender, text } = valueOf(entry) as InboundMessage;
  return {
    id,
    conversation,
    account,
    sender,
    text,
    run: JSON.parse(run) as string,
    error: JSON.parse(error) as string,
    at,
  };
}
