// ChannelState on Redis: a hash for each account, and a key that lives as long as its lease.
import type { ChannelStates } from '../../ports/channel-state.ts';
import { channelKeys, nameOf } from './keys.ts';
import type { RedisContext } from './operations.ts';

export function createChannelStates({ operate, connections }: RedisContext): ChannelStates {
  return (account) => {
    const keys = channelKeys(account);
    return {
      async get(key) {
        const json = await connections.call((client) => client.hget(keys.values, nameOf(key)));
        return json === null ? undefined : (JSON.parse(json) as unknown);
      },
      async set(key, value) {
        const json = JSON.stringify(value);
        await connections.call((client) => client.hset(keys.values, nameOf(key), json));
      },
      async delete(key) {
        await connections.call((client) => client.hdel(keys.values, nameOf(key)));
      },
      async lease(holder, ms) {
        return (await operate('channel-lease', [keys.lease], [holder, Math.max(1, Math.round(ms))])) === 1;
      },
      async release(holder) {
        await operate('channel-lease', [keys.lease], [holder, 0]);
      },
    };
  };
}
