// ConversationReader on Redis: what people, the API and the sweep look at.
import type { ConversationReader, MessageStatus } from '../../ports/reader.ts';
import { readHistory } from '../formats.ts';
import { conversationKeys, idOf, nameOf, SHARDS } from './keys.ts';
import type { RedisContext } from './operations.ts';
import { namesOf, pageByScore } from './paging.ts';

export function createReader({ operate, connections }: RedisContext): ConversationReader {
  return {
    async history(conversation, { cursor, limit }) {
      const { history } = conversationKeys(conversation);
      // Not one of ours: there is no such page.
      if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) return { items: [] };
      const [first, entries] = (await operate('history', [history], [cursor ?? '', limit])) as [
        number,
        string[],
      ];
      const items = entries.map(readHistory);
      return first > 0 ? { items, cursor: String(first) } : { items };
    },

    async state(conversation) {
      const k = conversationKeys(conversation);
      const [pending, run, summary, length, input, output, cached] = (await operate(
        'state',
        [k.meta, k.inbox, k.history],
        [],
      )) as [number, string | null, string | null, number, string | null, string | null, string | null];
      return {
        pending,
        ...(run ? { run } : {}),
        ...(summary ? { summary } : {}),
        length,
        usage: { input: Number(input), output: Number(output), cached: Number(cached) },
      };
    },

    async status(conversation, messageId) {
      const { seen } = conversationKeys(conversation);
      const status = (await operate('status', [seen], [nameOf(messageId)])) as string | null;
      if (status === null) return undefined;
      if (status === 'q') return { state: 'queued' };
      if (status.startsWith('r')) return { state: 'running', run: status.slice(1) };
      return JSON.parse(status) as MessageStatus;
    },

    async list({ cursor, limit }) {
      const page = await pageByScore(connections, {
        set: 'activity',
        newestFirst: true,
        limit,
        ...(cursor === undefined ? {} : { cursor }),
      });
      const items = page.members.map(({ member, score }) => ({ id: idOf(member), at: score }));
      return page.cursor === undefined ? { items } : { items, cursor: page.cursor };
    },

    async *pending(kind) {
      for (let shard = 0; shard < SHARDS; shard++) {
        for await (const name of namesOf(connections, shard, kind === 'lanes' ? 'pending' : 'outboxes')) {
          yield idOf(name);
        }
      }
    },
  };
}
