// What a message costs in Redis: commands sent (round trips) and commands executed (those inside scripts included), and
// that neither grows with the history.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { RunEvent } from '../../src/domain/events.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { silentLog } from '../fakes/log.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import {
  assistantEntry,
  claimed,
  delivery,
  inbound,
  LONG_MS,
  merge,
  update,
  userEntry,
} from './suites/support.ts';

describe('costs of the Redis storage', () => {
  let server: RedisServer;
  let admin: Redis;
  let storage: Storage;
  beforeAll(async () => {
    server = await startRedis();
    admin = new Redis(server.url);
    storage = await createRedisStorage({ url: server.url, log: silentLog });
  });
  afterAll(async () => {
    await storage.close();
    admin.disconnect();
    await server.close();
  });

  /** Commands sent by clients while `work` ran, and executed, by name. */
  async function count(work: () => Promise<void>) {
    const sent = new Map<string, number>();
    const monitor = await admin.monitor();
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      const name = args[0]!.toLowerCase();
      if (source !== 'lua') sent.set(name, (sent.get(name) ?? 0) + 1);
    });
    await admin.config('RESETSTAT');
    await work();
    const stats = await admin.info('commandstats');
    await vi.waitFor(() => expect(sent.get('info')).toBe(1));
    monitor.disconnect();
    const executed = new Map<string, number>();
    for (const [, name, calls] of stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm))
      executed.set(name!, Number(calls));
    const total = (counts: Map<string, number>) => {
      let sum = 0;
      for (const [name, n] of counts) if (!/^(info|config)/.test(name)) sum += n;
      return sum;
    };
    return { sent, executed, sentTotal: total(sent), executedTotal: total(executed) };
  }

  it('the whole path of a message takes at most 25 commands', async () => {
    const { store, outbox, index, events, lanes, deliveries } = storage;
    const rounds = 100;
    let settled = 0;
    const event = (type: 'agent_start'): RunEvent => ({
      conversation: 'acct:a',
      run: 'r',
      turn: 0,
      type,
      messages: [],
    });
    await lanes.work(
      async (conversation) => {
        const claim = await store.claim(conversation, { run: `r${settled}`, leaseMs: LONG_MS, limit: 20 });
        if (claim.status !== 'claimed') return 'idle';
        const { lease } = claim;
        await events.publish(conversation, [event('agent_start')]);
        // As with one tool call: the model's message, and the tool's result.
        await store.journal(lease, [{ v: 1, kind: 'tool_start', call_id: 'c' }]);
        await store.journal(lease, [{ v: 1, kind: 'tool_start', call_id: 'c' }]);
        await events.publish(conversation, [update(conversation, 'x'), update(conversation, 'y')]);
        const done = await store.commit(
          lease,
          merge({
            entries: [userEntry(lease.run, 'q'), assistantEntry(lease.run, 'a')],
            deliveries: [delivery(conversation, `${lease.run}.0`)],
          }),
        );
        await events.publish(conversation, [update(conversation, 'z')]);
        await deliveries.wake(conversation);
        return done && done.more ? 'more' : 'idle';
      },
      { concurrency: 10 },
    );
    await deliveries.work(
      async (conversation) => {
        const claim = await outbox.claim(conversation, LONG_MS);
        if (claim.status !== 'claimed') return 'idle';
        const more = await outbox.settle(claim.lease);
        settled += 1;
        return more && more.more ? 'more' : 'idle';
      },
      { concurrency: 10 },
    );
    const accept = async (n: number) => {
      const conversation = `acct:${n % 20}`;
      await index.remember('acct', `m${n}`, { conversation, fingerprint: 'f' });
      await store.append(inbound(conversation, `m${n}`, { busy: 'followup' }));
      await lanes.wake(conversation);
    };
    const answered = (n: number) =>
      vi.waitFor(() => expect(settled).toBe(n), { interval: 1, timeout: 10_000 });
    // The first sends the scripts.
    await accept(0);
    await answered(1);
    const alone = await count(async () => {
      for (let n = 1; n <= rounds; n += 1) {
        await accept(n);
        await answered(n + 1);
      }
    });
    const together = await count(async () => {
      await Promise.all(Array.from({ length: rounds }, (_, n) => accept(rounds + 1 + n)));
      await answered(2 * rounds + 1);
    });
    for (const [how, { sent, sentTotal, executedTotal }] of Object.entries({ alone, together })) {
      const each = [...sent].map(([name, n]) => `${name} ${(n / rounds).toFixed(1)}`).join(', ');
      console.info(
        `${how}: ${(sentTotal / rounds).toFixed(1)} commands sent a message (${each}), ` +
          `${(executedTotal / rounds).toFixed(0)} executed, those in scripts included`,
      );
    }
    // One at a time is the most: BullMQ looks for a next job after each, and asks again when it waited for two seconds.
    expect(Math.round(alone.sentTotal / rounds)).toBeLessThanOrEqual(25);
    expect(together.sentTotal / rounds).toBeLessThan(alone.sentTotal / rounds);
  });

  it('every operation is one round trip, as cheap after a thousand entries as after none', async () => {
    const { store, reader, outbox, index, control, events } = storage;
    const conversation = 'cost:a';
    const round = async (n: number) => {
      await index.remember('acct', `m${n}`, { conversation, fingerprint: 'f' });
      await store.append(inbound(conversation, `m${n}`));
      const { lease, snapshot } = await claimed(store, conversation, `r${n}`);
      await store.journal(lease, [{ v: 1, kind: 'tool_start', call_id: 'c' }]);
      await store.drain(lease, 10);
      await store.renew(lease, LONG_MS);
      await control.cancel(conversation);
      await events.publish(conversation, [update(conversation, 'x')]);
      const from = snapshot.contextFrom + snapshot.context.length;
      const entries = [userEntry('r', 'q'), assistantEntry('r', 'a')];
      await store.commit(
        lease,
        merge({ entries, deliveries: [delivery(conversation, `r${n}.0`)], context: { from } }),
      );
      const sending = await outbox.claim(conversation, LONG_MS);
      if (sending.status !== 'claimed') throw new Error(sending.status);
      await outbox.settle(sending.lease);
      await reader.status(conversation, `m${n}`);
      await reader.state(conversation);
      await reader.history(conversation, { limit: 5 });
    };
    await round(0);
    const before = await count(() => round(1));
    const entries = Array.from({ length: 1_000 }, (_, n) => userEntry('r', `${n}`));
    await store.append(inbound(conversation, 'many'));
    const { lease } = await claimed(store, conversation, 'many');
    await store.commit(lease, merge({ entries, context: { from: 1_000 } }));
    const after = await count(() => round(2));
    expect(before.sentTotal).toBe(14);
    expect(after.sentTotal).toBe(14);
    expect(after.executedTotal).toBe(before.executedTotal);
  });
});
