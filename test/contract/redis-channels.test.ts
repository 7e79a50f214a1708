// Channels on a Redis that is killed and comes back: what it has not taken is not acknowledged, comes again, and is there once.
// Over the platform's protocol: a long poll (iLink) and a long connection (Feishu).
import { expect, test } from 'vitest';
import { createChannelMemory } from '../../src/delivery/memory.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { acceptOn } from '../fakes/accept.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';
import { createTestMedia } from '../fakes/media.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { feishuRig } from './channels/feishu.ts';
import { weixinRig } from './channels/weixin.ts';
import { ACCOUNT } from './suites/channel.ts';

const { later, track } = useCleanups();

test('long poll and long connection acknowledge nothing while Redis is away, and go on by themselves', async () => {
  const redis = track(await startRedis());
  const storage = track(await createRedisStorage({ url: redis.url, log: silentLog, timeoutMs: 300 }));
  const { accept } = acceptOn(storage);
  const media = await createTestMedia(later);
  const memory = createChannelMemory(storage.index, ACCOUNT);
  const parts = {
    accept,
    cancel: async () => false,
    memory,
    storage,
    media,
    log: silentLog,
    folder: media.folder,
  };
  const rigs = await Promise.all([weixinRig(parts), feishuRig(parts)]);
  for (const { channel, close, connected } of rigs) {
    later(close);
    later(() => channel.stop());
    await channel.start();
    await connected();
  }
  const said = (id: string) =>
    Promise.all(
      rigs.map(async ({ say, ids }) => {
        const { acknowledged } = await say({ id, chat: ids.direct, sender: ids.ada, text: id });
        return acknowledged;
      }),
    );
  const waiting = () =>
    Promise.all(
      rigs.map(async ({ ids }) => (await storage.reader.state(`${ACCOUNT}:${ids.direct}`)).pending),
    );

  expect(await said('m1')).toEqual([true, true]);
  expect(await waiting()).toEqual([1, 1]);
  await redis.stop('SIGKILL');
  expect(await said('m2')).toEqual([false, false]);
  await redis.start();
  // The platforms hand it over again.
  while ((await said('m2')).includes(false));
  expect(await waiting()).toEqual([2, 2]);
  expect(await said('m2')).toEqual([true, true]);
  expect(await waiting()).toEqual([2, 2]);
});
