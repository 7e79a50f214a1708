// Contract of RunEventLog: order, resumption without loss or repetition, and a plain word where something is gone.
import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../../src/domain/events.ts';
import type { EventSubscription, LoggedEvent } from '../../../src/ports/events.ts';
import { update, useBacking } from './support.ts';
import type { MakeBacking } from './support.ts';

const isResync = (logged: LoggedEvent): logged is { id: string; resync: true } => 'resync' in logged;

/** The number that an event carries; -1 for a resync. */
const numberOf = (logged: LoggedEvent): number => {
  if (isResync(logged)) return -1;
  return logged.event.type === 'message_update' ? Number(logged.event.delta) : Number.NaN;
};

export function eventsContract(name: string, make: MakeBacking): void {
  describe(`${name}: run events`, () => {
    const backing = useBacking(make);

    const numbers = (from: number, to: number) =>
      Array.from({ length: to - from + 1 }, (_, n) => update('acct:a', `${from + n}`));

    /** The next `count` events; fails if the stream ends before. */
    const take = async (subscription: EventSubscription, count: number): Promise<LoggedEvent[]> => {
      const iterator = subscription[Symbol.asyncIterator]();
      const taken: LoggedEvent[] = [];
      while (taken.length < count) {
        const next = await iterator.next();
        if (next.done === true) throw new Error(`ended after ${taken.length} of ${count}`);
        taken.push(next.value);
      }
      return taken;
    };
    const idAt = (logged: LoggedEvent[], n: number): string => {
      const id = logged[n]?.id;
      if (id === undefined) throw new Error(`no event ${n}`);
      return id;
    };
    const never = () => new AbortController().signal;

    it('delivers what is published after attaching, in order, across processes', async () => {
      const a = await backing().open();
      const b = await backing().open();
      await a.events.publish('acct:a', numbers(0, 2));
      const subscription = await b.events.subscribe('acct:a', { signal: never() });
      await a.events.publish('acct:b', [update('acct:b', '99')]);
      await a.events.publish('acct:a', numbers(3, 5));
      await a.events.publish('acct:a', numbers(6, 6));
      const events = await take(subscription, 4);
      expect(events.map(numberOf)).toEqual([3, 4, 5, 6]);
      expect(events[0]).toMatchObject({ event: update('acct:a', '3') });
      expect(new Set(events.map((event) => event.id)).size).toBe(4);
      await subscription.close();
    });

    it('goes on after an id, without loss or repetition', async () => {
      const { events } = await backing().open();
      const first = await events.subscribe('acct:a', { signal: never() });
      await events.publish('acct:a', numbers(0, 9));
      const seen = await take(first, 10);
      await first.close();
      const resumed: [number, EventSubscription][] = [];
      for (const n of [0, 4, 9])
        resumed.push([n, await events.subscribe('acct:a', { after: idAt(seen, n), signal: never() })]);
      await events.publish('acct:a', numbers(10, 11));
      for (const [n, subscription] of resumed) {
        const rest = await take(subscription, 11 - n);
        expect(rest.map(numberOf)).toEqual(Array.from({ length: 11 - n }, (_, k) => n + 1 + k));
        await subscription.close();
      }
    });

    it('loses nothing to a reader who drops out and comes back while a run publishes', async () => {
      const a = await backing().open();
      const b = await backing().open();
      const total = 300;
      let subscription = await b.events.subscribe('acct:a', { signal: never() });
      const publishing = (async () => {
        for (let n = 0; n < total; n += 3) await a.events.publish('acct:a', numbers(n, n + 2));
      })();
      const seen: LoggedEvent[] = [];
      while (seen.length < total) {
        seen.push(...(await take(subscription, Math.min(7, total - seen.length))));
        await subscription.close();
        subscription = await b.events.subscribe('acct:a', {
          after: idAt(seen, seen.length - 1),
          signal: never(),
        });
      }
      await subscription.close();
      await publishing;
      expect(seen.map(numberOf)).toEqual(Array.from({ length: total }, (_, n) => n));
    });

    it('serves several readers, each at its own place', async () => {
      const { events } = await backing().open();
      const first = await events.subscribe('acct:a', { signal: never() });
      await events.publish('acct:a', numbers(0, 4));
      const seen = await take(first, 2);
      const second = await events.subscribe('acct:a', { after: idAt(seen, 0), signal: never() });
      const third = await events.subscribe('acct:a', { signal: never() });
      await events.publish('acct:a', numbers(5, 5));
      expect((await take(second, 5)).map(numberOf)).toEqual([1, 2, 3, 4, 5]);
      expect((await take(third, 1)).map(numberOf)).toEqual([5]);
      expect((await take(first, 4)).map(numberOf)).toEqual([2, 3, 4, 5]);
      for (const subscription of [first, second, third]) await subscription.close();
    });

    it.each(['unknown', '', '0', '0-0', '1-1', '99999999999999-99', 'x y\n', '💥'])(
      'answers the unknown id %j with a resync, from where it goes on',
      async (after) => {
        const { events } = await backing().open();
        await events.publish('acct:a', numbers(0, 2));
        const subscription = await events.subscribe('acct:a', { after, signal: never() });
        const [first] = await take(subscription, 1);
        if (first === undefined || !isResync(first)) throw new Error('no resync');
        await events.publish('acct:a', numbers(7, 8));
        const resumed = await events.subscribe('acct:a', { after: first.id, signal: never() });
        const both = [await take(subscription, 2), await take(resumed, 2)];
        for (const got of both) expect(got.map(numberOf)).toEqual([7, 8]);
        await subscription.close();
        await resumed.close();
      },
    );

    it('says so when what came after an id was trimmed', async () => {
      const { events } = await backing().open();
      const total = backing().eventsKept * 3;
      const first = await events.subscribe('acct:a', { signal: never() });
      await events.publish('acct:a', numbers(0, 0));
      const seen = await take(first, 1);
      await first.close();
      for (let n = 1; n < total; n += 100) await events.publish('acct:a', numbers(n, n + 99));
      const late = await events.subscribe('acct:a', { after: idAt(seen, 0), signal: never() });
      const [answer] = await take(late, 1);
      expect(answer).toMatchObject({ resync: true });
      await late.close();
    });

    it('never skips silently for a reader who is slow', async () => {
      const { events } = await backing().open();
      const total = backing().eventsKept * 3;
      const slow = await events.subscribe('acct:a', { signal: never() });
      for (let n = 0; n < total; n += 100) await events.publish('acct:a', numbers(n, n + 99));
      await events.publish('acct:a', numbers(total, total));
      let expected = 0;
      for await (const logged of slow) {
        const n = numberOf(logged);
        if (n === -1) {
          expected = Number.NaN;
          // All may be gone: what is published from here on is not.
          await events.publish('acct:a', numbers(total + 1, total + 1));
          continue;
        }
        if (!Number.isNaN(expected)) expect(n).toBe(expected);
        expected = n + 1;
        if (n >= total) break;
      }
    });

    it('knows where the newest run begins, and where the stream ends', async () => {
      const a = await backing().open();
      const b = await backing().open();
      const before = await b.events.position('acct:a');
      const run = (n: number): RunEvent[] => [
        { conversation: 'acct:a', run: `r${n}`, turn: 0, type: 'agent_start', messages: [] },
        ...numbers(n, n + 1),
      ];
      await a.events.publish('acct:a', run(10));
      await a.events.publish('acct:a', [...numbers(15, 15), ...run(20)]);
      const after = await b.events.position('acct:a');
      await a.events.publish('acct:a', numbers(30, 30));
      const read = async (from: string, count: number) => {
        const subscription = await b.events.subscribe('acct:a', { after: from, signal: never() });
        const got = await take(subscription, count);
        await subscription.close();
        return got.map((logged) => (Number.isNaN(numberOf(logged)) ? 'start' : numberOf(logged)));
      };
      for (const id of [before.run, before.end])
        expect(await read(id, 8)).toEqual(['start', 10, 11, 15, 'start', 20, 21, 30]);
      expect(await read(after.run, 4)).toEqual(['start', 20, 21, 30]);
      expect(await read(after.end, 1)).toEqual([30]);
    });

    it('gives what is kept of a run whose beginning was trimmed', async () => {
      const { events } = await backing().open();
      await events.publish('acct:a', [
        { conversation: 'acct:a', run: 'r1', turn: 0, type: 'agent_start', messages: [] },
      ]);
      const total = backing().eventsKept * 3;
      for (let n = 1; n < total; n += 100) await events.publish('acct:a', numbers(n, n + 99));
      const { run } = await events.position('acct:a');
      const subscription = await events.subscribe('acct:a', { after: run, signal: never() });
      const [first] = await take(subscription, 1);
      await subscription.close();
      expect(first).not.toMatchObject({ resync: true });
    });

    it('ends when closed, also a reader who waits', async () => {
      const { events } = await backing().open();
      const subscription = await events.subscribe('acct:a', { signal: never() });
      const reading = (async () => {
        for await (const _ of subscription) throw new Error('nothing was published');
        return 'ended';
      })();
      await subscription.close();
      await subscription.close();
      expect(await reading).toBe('ended');
      await events.publish('acct:a', numbers(0, 0));
    });

    it('ends when aborted, before or while it waits', async () => {
      const { events } = await backing().open();
      const controller = new AbortController();
      const subscription = await events.subscribe('acct:a', { signal: controller.signal });
      const reading = (async () => {
        for await (const _ of subscription) throw new Error('nothing was published');
        return 'ended';
      })();
      controller.abort();
      expect(await reading).toBe('ended');
      const dead = await events.subscribe('acct:a', { signal: controller.signal });
      const iterator = dead[Symbol.asyncIterator]();
      expect(await iterator.next()).toMatchObject({ done: true });
    });

    it('publishes to nobody without complaint', async () => {
      const { events } = await backing().open();
      await events.publish('acct:none', []);
      await events.publish('acct:none', [update('acct:none', '1')]);
    });
  });
}
