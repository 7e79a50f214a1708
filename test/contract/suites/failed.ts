// Contract of FailedMessages: what a failed run leaves, and asking again.
import { describe, expect, it, vi } from 'vitest';
import { claimed, collect, inbound, merge, ODD_NAMES, useBacking } from './support.ts';
import type { MakeBacking } from './support.ts';

const failure = (error: string) => merge({ outcome: { status: 'failed', reply: { text: 'sorry' }, error } });

export function failedContract(name: string, make: MakeBacking): void {
  describe(`${name}: failed messages`, () => {
    const backing = useBacking(make);

    it('are listed with their error, the newest failure first, in pages; what went well is not', async () => {
      const { store, failed } = await backing().open();
      expect(await failed.list({ limit: 10 })).toEqual({ items: [] });
      const before = Date.now();
      for (let n = 0; n < 5; n += 1) {
        const conversation = `acct:${n}`;
        await store.append(inbound(conversation, 'm1', { replyTo: { key: 'k', address: { secret: 's' } } }));
        const { lease } = await claimed(store, conversation, `r${n}`);
        await store.commit(lease, n === 3 ? merge() : failure(`model_failed: "${n}"\nsecond line`));
        // The next failure is at another time.
        await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(before + 2 * n + 1), { interval: 1 });
      }
      const first = await failed.list({ limit: 3 });
      expect(first.items.map(({ conversation }) => conversation)).toEqual(['acct:4', 'acct:2', 'acct:1']);
      const { at, ...shown } = first.items[0]!;
      const { id, account, sender, text } = inbound('acct:4', 'm1');
      expect(shown).toEqual({
        id,
        conversation: 'acct:4',
        account,
        sender,
        text,
        run: 'r4',
        error: 'model_failed: "4"\nsecond line',
      });
      expect(Math.abs(at - Date.now())).toBeLessThan(60_000);
      const second = await failed.list({ limit: 3, cursor: first.cursor! });
      expect(second.items.map(({ conversation }) => conversation)).toEqual(['acct:0']);
      expect(second.cursor).toBeUndefined();
      for (const cursor of ['', 'x', '1e99', '{}', "'"])
        expect((await failed.list({ limit: 3, cursor })).items.length).toBeLessThanOrEqual(3);
    });

    it('are asked again as they came, once, behind what waits; every message of the run by itself', async () => {
      const { store, failed, reader } = await backing().open();
      const first = inbound('acct:a', 'm1', { replyTo: { key: 'k', address: { url: 'u' } } });
      await store.append(first);
      await store.append(inbound('acct:a', 'm2'));
      await store.commit((await claimed(store, 'acct:a', 'r1')).lease, failure('e'));
      await store.append(inbound('acct:a', 'm3'));
      expect(await failed.retry('acct:a', 'm9')).toBe(false);
      expect(await failed.retry('acct:b', 'm1')).toBe(false);
      expect(await Promise.all([failed.retry('acct:a', 'm1'), failed.retry('acct:a', 'm1')])).toContain(
        false,
      );
      expect((await failed.list({ limit: 10 })).items.map(({ id }) => id)).toEqual(['m2']);
      expect(await reader.status('acct:a', 'm1')).toEqual({ state: 'queued' });
      expect(await reader.state('acct:a')).toMatchObject({ pending: 2 });
      expect(await collect(reader.pending('lanes'))).toEqual(['acct:a']);
      // Still the same message to its platform.
      expect(await store.append(first)).toEqual({ duplicate: true });

      const { lease, snapshot } = await claimed(store, 'acct:a', 'r2');
      expect(snapshot.inbox).toEqual([inbound('acct:a', 'm3'), first]);
      expect(snapshot.attempt).toBe(1);
      expect(await store.commit(lease, merge())).toEqual({ more: false });
      expect(await reader.status('acct:a', 'm1')).toMatchObject({ state: 'done', run: 'r2' });
      expect(await failed.retry('acct:a', 'm1')).toBe(false);
      expect((await failed.list({ limit: 10 })).items.map(({ id }) => id)).toEqual(['m2']);
    });

    it('that fail again are there again, once, with the newer error; a run at work may take them in', async () => {
      const { store, failed } = await backing().open();
      await store.append(inbound('acct:a', 'm1'));
      await store.commit((await claimed(store, 'acct:a', 'r1')).lease, failure('first'));
      await store.append(inbound('acct:a', 'm2'));
      const { lease } = await claimed(store, 'acct:a', 'r2');
      expect(await failed.retry('acct:a', 'm1')).toBe(true);
      expect((await store.drain(lease, 5))?.map(({ id }) => id)).toEqual(['m1']);
      await store.commit(lease, failure('second'));
      const { items } = await failed.list({ limit: 10 });
      expect(items.map(({ id, error }) => `${id} ${error}`).toSorted()).toEqual(['m1 second', 'm2 second']);
    });

    it('have any names', async () => {
      const { store, failed } = await backing().open();
      for (const chat of ODD_NAMES) {
        const conversation = `acct:${chat}`;
        await store.append(inbound(conversation, chat));
        await store.commit((await claimed(store, conversation, chat)).lease, failure(chat));
      }
      const { items } = await failed.list({ limit: 100 });
      expect(items.map(({ id }) => id).toSorted()).toEqual(ODD_NAMES.toSorted());
      for (const { id, conversation, error } of items) {
        expect([conversation, error]).toEqual([`acct:${id}`, id]);
        expect(await failed.retry(conversation, id)).toBe(true);
        expect((await claimed(store, conversation, 'r')).snapshot.inbox).toEqual([inbound(conversation, id)]);
      }
      expect(await failed.list({ limit: 100 })).toEqual({ items: [] });
    });
  });
}
