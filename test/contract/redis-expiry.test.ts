// What Redis forgets by itself: message ids and statuses after the dedupe window, histories after their time to live,
// run events soon; and that nothing else goes.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage, type RedisStorageOptions } from '../../src/storage/redis/index.ts';
import { conversationKeys } from '../../src/storage/redis/keys.ts';
import { silentLog } from '../fakes/log.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { claimed, inbound, merge, update, userEntry } from './suites/support.ts';

const PATIENCE = { timeout: 10_000, interval: 10 };
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe('Redis storage forgets', () => {
  let server: RedisServer;
  let admin: Redis;
  const opened: Storage[] = [];
  beforeEach(async () => {
    server = await startRedis();
    admin = new Redis(server.url);
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((storage) => storage.close()));
    admin.disconnect();
    await server.close();
  });
  const open = async (options: Partial<RedisStorageOptions>): Promise<Storage> => {
    const storage = await createRedisStorage({ url: server.url, log: silentLog, ...options });
    opened.push(storage);
    return storage;
  };
  const answer = async ({ store }: Storage, conversation: string, id: string) => {
    await store.append(inbound(conversation, id));
    const { lease, snapshot } = await claimed(store, conversation, `run-${id}`);
    await store.commit(
      lease,
      merge({ entries: [userEntry(lease.run, id)], context: { from: 0, summary: 's' } }),
    );
    return snapshot;
  };

  it('message ids and statuses after the dedupe window, each in its time, and nothing of the history', async () => {
    const windowMs = 400;
    const storage = await open({ dedupeHours: windowMs / HOUR_MS });
    const { store, reader, index } = storage;
    const { seen, seenOrder } = conversationKeys('acct:a');
    await index.remember('acct', 'm1', { conversation: 'acct:a', fingerprint: 'f' });
    await answer(storage, 'acct:a', 'm1');
    expect(await store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: true });
    // Other messages keep the conversation's keys alive; m1 goes all the same.
    let others = 0;
    await vi.waitFor(async () => {
      await answer(storage, 'acct:a', `other${(others += 1)}`);
      expect(await reader.status('acct:a', 'm1')).toBeUndefined();
    }, PATIENCE);
    expect(await reader.status('acct:a', `other${others}`)).toMatchObject({ state: 'done' });
    await store.append(inbound('acct:a', `other${others + 1}`));
    expect(await admin.hexists(seen, 'm1')).toBe(0);
    expect(await admin.hlen(seen)).toBe(await admin.llen(seenOrder));
    expect(await store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: false });
    await vi.waitFor(async () => expect(await index.find('acct', 'm1')).toBeUndefined(), PATIENCE);
    // A quiet conversation keeps none of it.
    await vi.waitFor(async () => expect(await admin.exists(seen, seenOrder)).toBe(0), PATIENCE);
    expect((await reader.history('acct:a', { limit: 100 })).items).toHaveLength(others + 1);
    // A message whose id is forgotten while it waits is answered, and its status is not kept for good.
    const { lease, snapshot } = await claimed(store, 'acct:a', 'late');
    expect(snapshot.inbox.map((message) => message.id)).toEqual([`other${others + 1}`, 'm1']);
    expect(await store.commit(lease, merge())).toEqual({ more: false });
    expect(await admin.exists(seen, seenOrder)).toBe(0);
  });

  it('failed messages after the dedupe window, each in its time', async () => {
    const windowMs = 400;
    const { store, failed } = await open({ dedupeHours: windowMs / HOUR_MS });
    const fail = async (id: string) => {
      await store.append(inbound('acct:a', id));
      const { lease } = await claimed(store, 'acct:a', `run-${id}`);
      await store.commit(lease, merge({ outcome: { status: 'failed', reply: { text: '' }, error: 'e' } }));
    };
    await fail('m1');
    const ids = async () => (await failed.list({ limit: 1_000 })).items.map(({ id }) => id);
    expect(await ids()).toEqual(['m1']);
    // Others keep the keys alive; m1 goes all the same.
    let others = 0;
    await vi.waitFor(async () => {
      await fail(`other${(others += 1)}`);
      expect(await ids()).not.toContain('m1');
    }, PATIENCE);
    expect(await ids()).toContain(`other${others}`);
    const { failed: records, failedAt } = conversationKeys('acct:a');
    await vi.waitFor(async () => expect(await admin.exists(records, failedAt)).toBe(0), PATIENCE);
  });

  it('no history unless told to', async () => {
    const storage = await open({});
    await answer(storage, 'acct:a', 'm1');
    const { meta, history } = conversationKeys('acct:a');
    expect([await admin.pttl(meta), await admin.pttl(history)]).toEqual([-1, -1]);
  });

  it('histories a while after their last activity, if told to', async () => {
    const days = 2_000 / DAY_MS;
    const storage = await open({ historyTtlDays: days });
    const { store, reader } = storage;
    await answer(storage, 'acct:a', 'm1');
    const { meta, history } = conversationKeys('acct:a');
    for (const key of [meta, history]) {
      await vi.waitFor(async () => expect(await admin.pttl(key)).toBeLessThan(1_900), PATIENCE);
      expect(await admin.pttl(key)).toBeGreaterThan(0);
    }
    // A claim and a commit start the time anew.
    expect((await answer(storage, 'acct:a', 'm2')).context).toHaveLength(1);
    expect(await admin.pttl(history)).toBeGreaterThan(1_900);
    // A run that is active when the time comes still answers its message, once.
    await store.append(inbound('acct:a', 'm3'));
    const { lease: forgotten } = await claimed(store, 'acct:a', 'r3');
    await vi.waitFor(async () => expect(await admin.exists(meta, history)).toBe(0), PATIENCE);
    expect(await store.commit(forgotten, merge())).toBe(false);
    const { lease, snapshot } = await claimed(store, 'acct:a', 'r4');
    expect(snapshot).toMatchObject({ context: [], contextFrom: 0, journal: [] });
    expect(snapshot.summary).toBeUndefined();
    expect(snapshot.inbox.map((message) => message.id)).toEqual(['m3']);
    expect(await store.commit(lease, merge())).toEqual({ more: false });

    await answer(storage, 'acct:b', 'm1');
    expect((await reader.list({ limit: 10 })).items.map(({ id }) => id)).toEqual(['acct:b', 'acct:a']);
  });

  it('nothing that lets a stale worker in: an epoch is higher than one that Redis lost', async () => {
    const { store } = await open({});
    await store.append(inbound('acct:a', 'm1'));
    const { lease: lost } = await claimed(store, 'acct:a', 'r1');
    // As after a crash without the last second of the append-only file.
    await admin.del(conversationKeys('acct:a').meta);
    // A crash takes longer than a millisecond.
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(lost.epoch), PATIENCE);
    const { lease } = await claimed(store, 'acct:a', 'r2');
    expect(lease.epoch).toBeGreaterThan(lost.epoch);
    expect(await store.commit(lost, merge())).toBe(false);
    expect(await store.commit(lease, merge())).toEqual({ more: false });
  });

  it('run events soon; a reader who had them all goes on, one who had not is told', async () => {
    const storage = await open({ keepEventsMs: 200 });
    const { events } = storage;
    const signal = new AbortController().signal;
    const first = await events.subscribe('acct:a', { signal });
    await events.publish('acct:a', [update('acct:a', '1'), update('acct:a', '2')]);
    const iterator = first[Symbol.asyncIterator]();
    const [one, two] = [(await iterator.next()).value!, (await iterator.next()).value!];
    await first.close();
    const { events: stream } = conversationKeys('acct:a');
    await vi.waitFor(async () => expect(await admin.exists(stream)).toBe(0), PATIENCE);
    const late = await events.subscribe('acct:a', { after: one.id, signal });
    const current = await events.subscribe('acct:a', { after: two.id, signal });
    await events.publish('acct:a', [update('acct:a', '3')]);
    // The stream is new by now: where it begins is known all the same.
    const later = await events.subscribe('acct:a', { after: one.id, signal });
    const caughtUp = await events.subscribe('acct:a', { after: two.id, signal });
    for (const subscription of [late, later]) {
      expect((await subscription[Symbol.asyncIterator]().next()).value).toMatchObject({ resync: true });
      await subscription.close();
    }
    for (const subscription of [current, caughtUp]) {
      expect((await subscription[Symbol.asyncIterator]().next()).value).toMatchObject({
        event: { delta: '3' },
      });
      await subscription.close();
    }
  });

  it('all of a conversation that is answered and old, but for what people may want to see', async () => {
    const storage = await open({ dedupeHours: 200 / HOUR_MS, keepEventsMs: 200 });
    await answer(storage, 'acct:a', 'm1');
    await storage.events.publish('acct:a', [update('acct:a', '1')]);
    const { meta, history, activity } = conversationKeys('acct:a');
    await vi.waitFor(
      async () => expect((await admin.keys('lk:*')).sort()).toEqual([activity, history, meta].sort()),
      PATIENCE,
    );
  });
});
