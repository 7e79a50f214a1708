// Contract of Outbox: order, back-off, parking, and the lease that keeps a delivery with one sender.
import { describe, expect, it, vi } from 'vitest';
import type { DeliveryClaim, Outbox } from '../../../src/ports/outbox.ts';
import { LONG_MS, commitDeliveries, delivery, useBacking } from './support.ts';
import type { MakeBacking } from './support.ts';

type Claimed = Extract<DeliveryClaim, { status: 'claimed' }>;

async function claimed(outbox: Outbox, conversation: string, leaseMs = LONG_MS): Promise<Claimed> {
  const result = await outbox.claim(conversation, leaseMs);
  if (result.status !== 'claimed') throw new Error(`claim of ${conversation}: ${JSON.stringify(result)}`);
  return result;
}

const claimedLater = (outbox: Outbox, conversation: string, leaseMs = LONG_MS): Promise<Claimed> =>
  vi.waitFor(() => claimed(outbox, conversation, leaseMs), { timeout: 10_000, interval: 10 });

export function outboxContract(name: string, make: MakeBacking): void {
  describe(`${name}: outbox`, () => {
    const backing = useBacking(make);

    /** A conversation with as many deliveries to send: r1.0, r1.1 … */
    const withDeliveries = async (count: number, conversation = 'acct:a', run = 'r1') => {
      const storage = await backing().open();
      const deliveries = Array.from({ length: count }, (_, n) => delivery(conversation, `${run}.${n}`));
      await commitDeliveries(storage.store, conversation, run, deliveries);
      return storage;
    };

    it('is empty where nothing is to be sent', async () => {
      const { outbox } = await withDeliveries(0);
      expect(await outbox.claim('acct:a', LONG_MS)).toEqual({ status: 'empty' });
      expect(await outbox.claim('acct:none', LONG_MS)).toEqual({ status: 'empty' });
    });

    it('gives deliveries in order, across commits', async () => {
      const { store, outbox } = await withDeliveries(2);
      await commitDeliveries(store, 'acct:a', 'r2', [delivery('acct:a', 'r2.0')]);
      const order: string[] = [];
      for (const more of [true, true, false]) {
        const { lease, delivery: sending, attempt } = await claimed(outbox, 'acct:a');
        expect(attempt).toBe(1);
        expect(sending).toEqual(delivery('acct:a', sending.id));
        order.push(sending.id);
        expect(await outbox.settle(lease)).toEqual({ more });
      }
      expect(order).toEqual(['r1.0', 'r1.1', 'r2.0']);
      expect(await outbox.claim('acct:a', LONG_MS)).toEqual({ status: 'empty' });
    });

    it('takes a notice that no run made, behind what waits', async () => {
      const { outbox } = await withDeliveries(1);
      await outbox.add(delivery('acct:a', 'notice.0'));
      await outbox.add(delivery('acct:never heard of', 'notice.1'));
      const { lease } = await claimed(outbox, 'acct:a');
      expect(lease.deliveryId).toBe('r1.0');
      expect(await outbox.settle(lease)).toEqual({ more: true });
      const { delivery: notice, attempt } = await claimed(outbox, 'acct:a');
      expect([notice, attempt]).toEqual([delivery('acct:a', 'notice.0'), 1]);
      expect((await claimed(outbox, 'acct:never heard of')).delivery.id).toBe('notice.1');
      const { items } = await outbox.list({ state: 'pending', limit: 10 });
      expect(items.map(({ id }) => id).sort()).toEqual(['notice.0', 'notice.1']);
    });

    it('lends one delivery of a conversation at a time', async () => {
      const { outbox: a } = await withDeliveries(2);
      const { outbox: b } = await backing().open();
      const results = await Promise.all([a.claim('acct:a', LONG_MS), b.claim('acct:a', LONG_MS)]);
      expect(results.map((result) => result.status).sort()).toEqual(['claimed', 'wait']);
      const waiting = results.find((result) => result.status === 'wait');
      if (waiting?.status !== 'wait') throw new Error('nobody waits');
      expect(waiting.forMs).toBeGreaterThan(0);
      expect(waiting.forMs).toBeLessThanOrEqual(LONG_MS);
    });

    it('does not let one conversation wait for another', async () => {
      const { outbox } = await withDeliveries(1, 'acct:a', 'ra');
      await withDeliveries(1, 'acct:b', 'rb');
      await claimed(outbox, 'acct:a');
      expect((await claimed(outbox, 'acct:b')).delivery.id).toBe('rb.0');
    });

    it('a lease that expired is taken over: next attempt, and the first sender is stale', async () => {
      const { outbox: a } = await withDeliveries(1);
      const { outbox: b } = await backing().open();
      const first = await claimed(a, 'acct:a', 20);
      const second = await claimedLater(b, 'acct:a');
      expect(second.delivery).toEqual(first.delivery);
      expect(second.attempt).toBe(2);
      expect(second.lease.epoch).toBeGreaterThan(first.lease.epoch);
      expect(await a.settle(first.lease)).toBe(false);
      expect(await a.retryLater(first.lease, 0, 'stale')).toBe(false);
      expect(await a.park(first.lease, 'stale')).toBe(false);
      expect((await a.list({ state: 'parked', limit: 10 })).items).toEqual([]);
      expect(await b.settle(second.lease)).toEqual({ more: false });
      expect(await b.settle(second.lease)).toBe(false);
    });

    it('backs off, and those behind it wait', async () => {
      const { outbox } = await withDeliveries(2);
      const first = await claimed(outbox, 'acct:a');
      expect(await outbox.retryLater(first.lease, 60_000, 'gateway timeout')).toBe(true);
      expect(await outbox.settle(first.lease)).toBe(false);
      expect(await outbox.retryLater(first.lease, 0, 'again')).toBe(false);
      const waiting = await outbox.claim('acct:a', LONG_MS);
      if (waiting.status !== 'wait') throw new Error(waiting.status);
      expect(waiting.forMs).toBeGreaterThan(1_000);
      expect(waiting.forMs).toBeLessThanOrEqual(60_000);
      const { items } = await outbox.list({ state: 'pending', limit: 10 });
      expect(items.map(({ id, attempts, error }) => [id, attempts, error])).toEqual([
        ['r1.0', 1, 'gateway timeout'],
        ['r1.1', 0, undefined],
      ]);
    });

    it('backs off for as long as was said, though the clock jumps meanwhile', async () => {
      const { outbox } = await withDeliveries(1);
      const { lease } = await claimed(outbox, 'acct:a');
      const realNow = Date.now;
      const ahead = vi.spyOn(Date, 'now').mockImplementation(() => realNow() + 3_600_000);
      await outbox.retryLater(lease, 50, 'no').finally(() => ahead.mockRestore());
      expect((await claimedLater(outbox, 'acct:a')).attempt).toBe(2);
    });

    it('counts attempts; when the time has come the same delivery comes first', async () => {
      const { outbox } = await withDeliveries(2);
      for (const attempt of [1, 2, 3]) {
        const sending = await claimedLater(outbox, 'acct:a');
        expect(sending.attempt).toBe(attempt);
        expect(sending.delivery.id).toBe('r1.0');
        await outbox.retryLater(sending.lease, 20, 'no');
      }
    });

    it('postpones without counting: however often, it is not used up, and those behind it wait', async () => {
      const { outbox } = await withDeliveries(2);
      const first = await claimed(outbox, 'acct:a');
      await outbox.retryLater(first.lease, 1, 'gateway timeout');
      for (let round = 0; round < 3; round += 1) {
        const { lease, delivery: sending, attempt } = await claimedLater(outbox, 'acct:a');
        expect([sending.id, attempt]).toEqual(['r1.0', 2]);
        expect(await outbox.postpone(lease, 1, 'not logged in')).toBe(true);
        expect(await outbox.postpone(lease, 1, 'again')).toBe(false);
        expect(await outbox.settle(lease)).toBe(false);
        const { items } = await outbox.list({ state: 'pending', limit: 10 });
        expect(items.map(({ id, attempts, error }) => [id, attempts, error])).toEqual([
          ['r1.0', 1, 'not logged in'],
          ['r1.1', 0, undefined],
        ]);
      }
      await outbox.postpone((await claimedLater(outbox, 'acct:a')).lease, 60_000, 'not logged in');
      const waiting = await outbox.claim('acct:a', LONG_MS);
      if (waiting.status !== 'wait') throw new Error(waiting.status);
      expect(waiting.forMs).toBeGreaterThan(1_000);
    });

    it('parks: listed, out of the way, no longer claimable', async () => {
      const { outbox } = await withDeliveries(2);
      const first = await claimed(outbox, 'acct:a');
      expect(await outbox.park(first.lease, 'gone for good')).toEqual({ more: true });
      expect(await outbox.park(first.lease, 'again')).toBe(false);
      expect(await outbox.list({ state: 'parked', limit: 10 })).toEqual({
        items: [{ ...delivery('acct:a', 'r1.0'), state: 'parked', attempts: 1, error: 'gone for good' }],
      });
      const second = await claimed(outbox, 'acct:a');
      expect(second.delivery.id).toBe('r1.1');
      expect(await outbox.park(second.lease, 'too')).toEqual({ more: false });
      expect(await outbox.claim('acct:a', LONG_MS)).toEqual({ status: 'empty' });
    });

    it('puts a parked delivery back at the end, with its attempts at none', async () => {
      const { outbox } = await withDeliveries(2);
      const first = await claimed(outbox, 'acct:a');
      await outbox.park(first.lease, 'no');
      expect(await outbox.retry('r1.0')).toBe('acct:a');
      expect(await outbox.retry('r1.0')).toBeUndefined();
      expect(await outbox.retry('r9.0')).toBeUndefined();
      expect((await outbox.list({ state: 'parked', limit: 10 })).items).toEqual([]);
      const second = await claimed(outbox, 'acct:a');
      expect(second.delivery.id).toBe('r1.1');
      expect(await outbox.settle(second.lease)).toEqual({ more: true });
      const third = await claimed(outbox, 'acct:a');
      expect(third).toMatchObject({ delivery: delivery('acct:a', 'r1.0'), attempt: 1 });
      expect(await outbox.settle(first.lease)).toBe(false);
      expect(await outbox.settle(third.lease)).toEqual({ more: false });
    });

    it('does not retry what is not parked', async () => {
      const { outbox } = await withDeliveries(1);
      expect(await outbox.retry('r1.0')).toBeUndefined();
      await claimed(outbox, 'acct:a');
      expect(await outbox.retry('r1.0')).toBeUndefined();
    });

    it('lists in pages, each once', async () => {
      const { outbox } = await withDeliveries(12, 'acct:a', 'ra');
      await withDeliveries(12, 'acct:b', 'rb');
      for (const state of ['pending', 'parked'] as const) {
        const seen: string[] = [];
        let cursor: string | undefined;
        let pages = 0;
        do {
          const page = await outbox.list({ state, limit: 7, ...(cursor !== undefined && { cursor }) });
          expect(page.items.length).toBeLessThanOrEqual(7);
          for (const record of page.items) {
            expect(record.state).toBe(state);
            seen.push(record.id);
          }
          cursor = page.cursor;
          pages += 1;
        } while (cursor !== undefined && pages < 20);
        const expected = ['ra', 'rb'].flatMap((run) => Array.from({ length: 12 }, (_, n) => `${run}.${n}`));
        expect([...seen].sort()).toEqual(expected.sort());
        if (state === 'parked') break;
        for (const conversation of ['acct:a', 'acct:b'])
          for (let n = 0; n < 12; n += 1)
            await outbox.park((await claimed(outbox, conversation)).lease, `no ${n}`);
      }
    });
  });
}
