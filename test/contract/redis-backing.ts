// Redis as the contract suites want it: every open() is a process's worth of connections.
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { silentLog } from '../fakes/log.ts';
import { closeStorage } from '../fakes/storage.ts';
import type { Backing } from './suites/support.ts';

const MAX_EVENTS = 200;

/** `url`: of an empty Redis. */
export function redisBacking(url: string): Backing {
  const opened: Storage[] = [];
  return {
    shared: true,
    eventsKept: Math.ceil(MAX_EVENTS * 1.1),
    async open() {
      const storage = await createRedisStorage({ url, log: silentLog, maxEvents: MAX_EVENTS });
      opened.push(storage);
      return storage;
    },
    dispose: async () => void (await Promise.all(opened.map(closeStorage))),
  };
}
