// Contract of ConversationReader: statuses, paging, and what the sweep looks for.
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Page } from '../../../src/ports/reader.ts';
import {
  LONG_MS,
  claimed,
  collect,
  commitDeliveries,
  delivery,
  inbound,
  merge,
  useBacking,
  userEntry,
} from './support.ts';
import type { MakeBacking } from './support.ts';

/** All pages, in the order in which they came. */
async function pages<T>(fetch: (cursor: string | undefined) => Promise<Page<T>>): Promise<T[][]> {
  const all: T[][] = [];
  let cursor: string | undefined;
  do {
    const page = await fetch(cursor);
    all.push(page.items);
    cursor = page.cursor;
  } while (cursor !== undefined && all.length < 100);
  return all;
}

export function readerContract(name: string, make: MakeBacking): void {
  describe(`${name}: reader`, () => {
    const backing = useBacking(make);

    it('knows nothing of a conversation nobody wrote in', async () => {
      const { reader } = await backing().open();
      expect(await reader.state('acct:none')).toEqual({
        pending: 0,
        length: 0,
        usage: { input: 0, output: 0, cached: 0 },
      });
      expect(await reader.history('acct:none', { limit: 10 })).toEqual({ items: [] });
      expect(await reader.status('acct:none', 'm1')).toBeUndefined();
      expect(await reader.list({ limit: 10 })).toEqual({ items: [] });
      expect(await collect(reader.pending('lanes'))).toEqual([]);
      expect(await collect(reader.pending('outbox'))).toEqual([]);
    });

    it('follows a message: queued, running, done', async () => {
      const { store, reader } = await backing().open();
      await store.append(inbound('acct:a', 'm1'));
      expect(await reader.status('acct:a', 'm1')).toEqual({ state: 'queued' });
      expect(await reader.status('acct:a', 'm2')).toBeUndefined();
      const { lease } = await claimed(store, 'acct:a', 'r1');
      expect(await reader.status('acct:a', 'm1')).toEqual({ state: 'running', run: 'r1' });
      await store.append(inbound('acct:a', 'm2'));
      expect(await reader.status('acct:a', 'm2')).toEqual({ state: 'queued' });
      await store.drain(lease, 1);
      expect(await reader.status('acct:a', 'm2')).toEqual({ state: 'running', run: 'r1' });
      const outcome = { status: 'failed' as const, reply: { text: 'sorry' } };
      await store.commit(lease, merge({ outcome }));
      const failed = { state: 'failed', reply: { text: 'sorry' }, run: 'r1' };
      expect(await reader.status('acct:a', 'm1')).toEqual(failed);
      expect(await reader.status('acct:a', 'm2')).toEqual(failed);
    });

    it('shows the active run only while its lease is live', async () => {
      const { store, reader } = await backing().open();
      await store.append(inbound('acct:a', 'm1'));
      const { lease } = await claimed(store, 'acct:a', 'r1');
      expect(await reader.state('acct:a')).toMatchObject({ run: 'r1', pending: 1 });
      await store.renew(lease, 20);
      await expect.poll(async () => (await reader.state('acct:a')).run).toBeUndefined();
      expect((await reader.state('acct:a')).pending).toBe(1);
      const again = await claimed(store, 'acct:a', 'r2');
      expect((await reader.state('acct:a')).run).toBe('r1');
      await store.release(again.lease);
      expect((await reader.state('acct:a')).run).toBeUndefined();
    });

    it('pages the history back in time', async () => {
      const { store, reader } = await backing().open();
      for (let n = 0; n < 10; n += 2) {
        await store.append(inbound('acct:a', `m${n}`));
        const { lease } = await claimed(store, 'acct:a', `r${n}`);
        const entries = [userEntry('r', `${n}`), userEntry('r', `${n + 1}`)];
        await store.commit(lease, merge({ entries }));
      }
      const texts = (limit: number) =>
        pages(async (cursor) => {
          const page = await reader.history('acct:a', { limit, ...(cursor && { cursor }) });
          return {
            ...page,
            items: page.items.map((entry) => JSON.stringify(entry.content).match(/\d/)?.[0]),
          };
        });
      expect(await texts(4)).toEqual([
        ['6', '7', '8', '9'],
        ['2', '3', '4', '5'],
        ['0', '1'],
      ]);
      expect(await texts(5)).toEqual([
        ['5', '6', '7', '8', '9'],
        ['0', '1', '2', '3', '4'],
      ]);
      expect(await texts(10)).toHaveLength(1);
      expect(await texts(100)).toHaveLength(1);
    });

    it('pages on without repeating while new entries are added', async () => {
      const { store, reader } = await backing().open();
      const add = async (n: number) => {
        await store.append(inbound('acct:a', `m${n}`));
        const { lease } = await claimed(store, 'acct:a', `r${n}`);
        await store.commit(lease, merge({ entries: [userEntry('r', `${n}`)] }));
      };
      for (let n = 0; n < 4; n += 1) await add(n);
      const first = await reader.history('acct:a', { limit: 2 });
      await add(4);
      if (first.cursor === undefined) throw new Error('one page only');
      const second = await reader.history('acct:a', { limit: 2, cursor: first.cursor });
      expect(first.items).toEqual([userEntry('r', '2'), userEntry('r', '3')]);
      expect(second.items).toEqual([userEntry('r', '0'), userEntry('r', '1')]);
    });

    it('takes a cursor that is none of its own for nothing worse than an empty or first page', async () => {
      const { store, reader, outbox } = await backing().open();
      await store.append(inbound('acct:a', 'm1'));
      for (const cursor of ['', 'x', '-1', '1e99', '{}', '99999999999999999999', '../..', "'"]) {
        expect((await reader.history('acct:a', { limit: 10, cursor })).items).toEqual([]);
        expect((await reader.list({ limit: 10, cursor })).items.length).toBeLessThanOrEqual(1);
        expect((await outbox.list({ state: 'parked', limit: 10, cursor })).items).toEqual([]);
      }
    });

    it('takes any cursor', async () => {
      const { store, reader, outbox, failed } = await backing().open();
      await commitDeliveries(store, 'acct:a', 'r1', [delivery('acct:a', 'r1.0')]);
      const cursor = fc.oneof(
        fc.string({ unit: 'binary', maxLength: 40 }),
        fc.tuple(fc.integer(), fc.string({ maxLength: 9 })).map(([n, text]) => `${n}:${text}`),
        fc.tuple(fc.integer(), fc.integer(), fc.string()).map((parts) => parts.join(':')),
        fc.tuple(fc.double(), fc.integer()).map((parts) => parts.join('.')),
      );
      await fc.assert(
        fc.asyncProperty(cursor, async (given) => {
          const page = { cursor: given, limit: 5 };
          const found = await Promise.all([
            reader.history('acct:a', page),
            reader.list(page),
            failed.list(page),
            outbox.list({ state: 'pending', ...page }),
            outbox.list({ state: 'parked', ...page }),
          ]);
          for (const { items } of found) expect(items.length).toBeLessThanOrEqual(1);
        }),
        { numRuns: 60 },
      );
    });

    it('lists conversations by last activity, in pages, each once', async () => {
      const { store, reader } = await backing().open();
      const names = Array.from({ length: 25 }, (_, n) => `acct:${n}`);
      const clock = async () => {
        const start = Date.now();
        await expect.poll(() => Date.now() - start, { interval: 1 }).toBeGreaterThan(1);
      };
      for (const conversation of names) {
        await store.append(inbound(conversation, 'm1'));
        await clock();
      }
      const all = await pages((cursor) => reader.list({ limit: 10, ...(cursor && { cursor }) }));
      expect(all.map((page) => page.length)).toEqual([10, 10, 5]);
      expect(all.flat().map((item) => item.id)).toEqual([...names].reverse());
      for (const item of all.flat()) expect(Math.abs(Date.now() - item.at)).toBeLessThan(60_000);

      await store.commit((await claimed(store, 'acct:3', 'r1')).lease, merge());
      expect((await reader.list({ limit: 1 })).items[0]?.id).toBe('acct:3');
    });

    it('pages through conversations that were active in the same millisecond', async () => {
      const { store, reader } = await backing().open();
      const names = Array.from({ length: 50 }, (_, n) => `acct:${n}`);
      await Promise.all(names.map((conversation) => store.append(inbound(conversation, 'm1'))));
      const all = await pages((cursor) => reader.list({ limit: 7, ...(cursor && { cursor }) }));
      expect(
        all
          .flat()
          .map((item) => item.id)
          .sort(),
      ).toEqual([...names].sort());
    });

    it('finds every conversation with something to run, also where a run holds or lost it', async () => {
      const { store, reader } = await backing().open();
      const names = Array.from({ length: 1_200 }, (_, n) => `acct:${n}`);
      await Promise.all(names.map((conversation) => store.append(inbound(conversation, 'm1'))));
      await claimed(store, 'acct:1', 'r1');
      await store.release((await claimed(store, 'acct:2', 'r2')).lease);
      await store.commit((await claimed(store, 'acct:3', 'r3')).lease, merge());
      const found = await collect(reader.pending('lanes'));
      expect([...new Set(found)].sort()).toEqual(names.filter((id) => id !== 'acct:3').sort());
    });

    it('finds every conversation with something to send; parked deliveries do not count', async () => {
      const { store, reader, outbox } = await backing().open();
      for (const id of ['a', 'b', 'c'])
        await commitDeliveries(store, `acct:${id}`, `r${id}`, [delivery(`acct:${id}`, `r${id}.0`)]);
      await commitDeliveries(store, 'acct:d', 'rd', []);
      expect((await collect(reader.pending('outbox'))).sort()).toEqual(['acct:a', 'acct:b', 'acct:c']);
      const a = await outbox.claim('acct:a', LONG_MS);
      const b = await outbox.claim('acct:b', LONG_MS);
      if (a.status !== 'claimed' || b.status !== 'claimed') throw new Error('not claimed');
      await outbox.settle(a.lease);
      await outbox.park(b.lease, 'no');
      expect(await collect(reader.pending('outbox'))).toEqual(['acct:c']);
      await outbox.retry('rb.0');
      expect((await collect(reader.pending('outbox'))).sort()).toEqual(['acct:b', 'acct:c']);
    });
  });
}
