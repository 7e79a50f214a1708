// Outbox on Redis: a list per conversation whose head is the delivery in hand; its lease, attempts and back-off are in
// the conversation's hash. Parked deliveries are kept per shard.
import type { Delivery, DeliveryRecord } from '../../domain/delivery.ts';
import type { DeliveryLease, Outbox } from '../../ports/outbox.ts';
import type { Page } from '../../ports/reader.ts';
import { conversationKeys, idOf, nameOf, SHARDS, shardKeys } from './keys.ts';
import { entryOf, valueOf, type RedisContext } from './operations.ts';
import { namesOf, pageByScore } from './paging.ts';

export function createOutbox({ operate, connections }: RedisContext): Outbox {
  const { call } = connections;

  async function listPending(cursor: string | undefined, limit: number): Promise<Page<DeliveryRecord>> {
    const items: DeliveryRecord[] = [];
    const from = parsePlace(cursor);

    /** Adds what is left of one conversation's outbox; returns where the next page starts once this one is full. */
    async function add(shard: number, name: string, index: number): Promise<string | undefined> {
      const k = conversationKeys(idOf(name));
      const wanted = limit - items.length;
      const [entries, [attempts, error]] = await Promise.all([
        // One more than wanted tells whether there is a next page.
        call((client) => client.lrange(k.outbox, index, index + wanted)),
        call((client) => client.hmget(k.meta, 'attempts', 'error')),
      ]);
      for (const [i, entry] of entries.slice(0, wanted).entries()) {
        const head = index + i === 0;
        items.push({
          ...(valueOf(entry) as Delivery),
          state: 'pending',
          attempts: head ? Number(attempts ?? 0) : 0,
          ...(head && error ? { error } : {}),
        });
      }
      return entries.length > wanted ? `${shard}:${index + wanted}:${name}` : undefined;
    }

    if (from.name !== undefined) {
      const next = await add(from.shard, from.name, from.index);
      if (next !== undefined) return { items, cursor: next };
    }
    for (let shard = from.shard; shard < SHARDS; shard++) {
      const after = shard === from.shard ? from.name : undefined;
      for await (const name of namesOf(connections, shard, 'outboxes', after)) {
        const next = await add(shard, name, 0);
        if (next !== undefined) return { items, cursor: next };
      }
    }
    return { items };
  }

  async function listParked(cursor: string | undefined, limit: number): Promise<Page<DeliveryRecord>> {
    const page = await pageByScore(connections, {
      set: 'parkedAt',
      newestFirst: false,
      limit,
      ...(cursor === undefined ? {} : { cursor }),
    });
    const records = await Promise.all(
      page.members.map(({ shard, member }) => call((client) => client.hget(shardKeys(shard).parked, member))),
    );
    // Retried between the two reads: gone.
    const items = records.filter((record) => record !== null).map(parseParked);
    return page.cursor === undefined ? { items } : { items, cursor: page.cursor };
  }

  async function putOff(
    { conversation, epoch }: DeliveryLease,
    delayMs: number,
    error: string,
    counted: boolean,
  ): Promise<boolean> {
    const { meta } = conversationKeys(conversation);
    const args = [epoch, Math.ceil(delayMs), error, counted ? 0 : 1];
    return (await operate('outbox-retry-later', [meta], args)) === 1;
  }

  return {
    async claim(conversation, leaseMs) {
      const k = conversationKeys(conversation);
      const reply = (await operate('outbox-claim', [k.meta, k.outbox, k.outboxes], [k.name, leaseMs])) as
        | ['empty']
        | ['wait', number]
        | ['claimed', number, number, string];
      if (reply[0] === 'empty') return { status: 'empty' };
      if (reply[0] === 'wait') return { status: 'wait', forMs: reply[1] };
      const [, epoch, attempt, entry] = reply;
      const delivery = valueOf(entry) as Delivery;
      const lease: DeliveryLease = { conversation, deliveryId: delivery.id, epoch };
      return { status: 'claimed', lease, delivery, attempt };
    },

    async settle({ conversation, epoch }) {
      const k = conversationKeys(conversation);
      const reply = await operate('outbox-settle', [k.meta, k.outbox, k.outboxes], [epoch, k.name]);
      return reply === -1 ? false : { more: reply === 1 };
    },

    retryLater: (lease, delayMs, error) => putOff(lease, delayMs, error, true),

    postpone: (lease, delayMs, reason) => putOff(lease, delayMs, reason, false),

    async park({ conversation, epoch }, error) {
      const k = conversationKeys(conversation);
      const keys = [k.meta, k.outbox, k.outboxes, k.parked, k.parkedAt];
      const reply = await operate('outbox-park', keys, [epoch, k.name, JSON.stringify(error)]);
      return reply === -1 ? false : { more: reply === 1 };
    },

    list: ({ state, cursor, limit }) =>
      state === 'pending' ? listPending(cursor, limit) : listParked(cursor, limit),

    async add(delivery) {
      const k = conversationKeys(delivery.conversation);
      await operate('outbox-add', [k.outbox, k.outboxes], [k.name, entryOf(nameOf(delivery.id), delivery)]);
    },

    async retry(deliveryId) {
      // Asked for by a person, seldom: every shard is looked at, instead of an index that every park would pay for.
      const name = nameOf(deliveryId);
      const records = await Promise.all(
        Array.from({ length: SHARDS }, (_, shard) =>
          call((client) => client.hget(shardKeys(shard).parked, name)),
        ),
      );
      const record = records.find((found) => found !== null);
      if (record === undefined || record === null) return undefined;
      const { conversation } = parseParked(record);
      const k = conversationKeys(conversation);
      const done = await operate(
        'outbox-retry',
        [k.parked, k.parkedAt, k.outbox, k.outboxes],
        [name, k.name],
      );
      return done === 1 ? conversation : undefined;
    },
  };
}

/** `<attempts>\n<error as JSON>\n<outbox entry>`, as outbox-park.lua writes it. */
function parseParked(record: string): DeliveryRecord {
  const [attempts = '', error = ''] = record.split('\n', 2);
  const delivery = valueOf(record.slice(attempts.length + error.length + 2)) as Delivery;
  return { ...delivery, state: 'parked', attempts: Number(attempts), error: JSON.parse(error) as string };
}

/** `<shard>:<index>:<conversation name>`: the next delivery to list. */
function parsePlace(cursor: string | undefined): { shard: number; index: number; name?: string } {
  if (cursor === undefined) return { shard: 0, index: 0 };
  const match = /^(\d{1,2}):(\d{1,9}):(.*)$/s.exec(cursor);
  // Not one of ours: there is no such page.
  if (!match) return { shard: SHARDS, index: 0 };
  return { shard: Number(match[1]), index: Number(match[2]), name: match[3]! };
}
