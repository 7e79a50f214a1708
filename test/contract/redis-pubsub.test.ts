// Pub/sub of Redis knows no databases, and between the nodes of a cluster it loses messages without a word.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { EventSubscription } from '../../src/ports/events.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { conversationKeys } from '../../src/storage/redis/keys.ts';
import { loadScripts } from '../../src/storage/redis/scripts.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { claimed, inbound, update } from './suites/support.ts';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

const { later, track } = useCleanups();
const open = async (database = '') =>
  track(await createRedisStorage({ url: `${server.url}${database}`, log: silentLog }));

/** The texts of the next so many events. */
async function texts(subscription: EventSubscription, count: number): Promise<string[]> {
  const found: string[] = [];
  for await (const logged of subscription) {
    found.push(
      'resync' in logged ? 'resync' : logged.event.type === 'message_update' ? logged.event.delta : '?',
    );
    if (found.length === count) break;
  }
  return found;
}

it('two servers in two databases of one Redis hear nothing of each other', async () => {
  const [mine, other] = [await open('/3'), await open('/0')];
  const name = 'web:same';
  const signals: string[] = [];
  mine.control.onSignal(({ type, run }) => signals.push(`${type} ${run}`));
  const subscription = await mine.events.subscribe(name, { signal: new AbortController().signal });
  for (const [storage, run] of [
    [other, 'theirs'],
    [mine, 'ours'],
  ] as const) {
    await storage.store.append(inbound(name, 'm1'));
    await claimed(storage.store, name, run);
    await storage.events.publish(name, [update(name, run)]);
    await storage.control.cancel(name);
  }
  expect(await texts(subscription, 1)).toEqual(['ours']);
  await expect.poll(() => signals).toEqual(['cancel ours']);
  expect((await other.reader.state(name)).run).toBe('theirs');
});

it('a batch of events that got lost on its way is noticed with the next one, and read', async () => {
  const storage = await open();
  const name = 'web:gap';
  const subscription = await storage.events.subscribe(name, { signal: new AbortController().signal });
  const admin = new Redis(server.url);
  later(() => admin.disconnect());
  const run = await loadScripts();
  const { meta, events } = conversationKeys(name);
  await storage.events.publish(name, [update(name, 'a')]);
  await run(
    admin,
    'events-publish',
    [meta, events],
    ['nowhere', 100, 60_000, 0, JSON.stringify(update(name, 'b'))],
  );
  await storage.events.publish(name, [update(name, 'c')]);
  await storage.events.publish(name, [update(name, 'd')]);
  expect(await texts(subscription, 4)).toEqual(['a', 'b', 'c', 'd']);
});
