// Contract of ConversationStore, part two: the journal, runs that are resumed, cancel marks and resets.
import { describe, expect, it } from 'vitest';
import type { JournalEntry } from '../../../src/ports/store.ts';
import {
  LONG_MS,
  assistantEntry,
  claimed,
  claimedLater,
  delivery,
  inbound,
  merge,
  useBacking,
  userEntry,
} from './support.ts';
import type { MakeBacking } from './support.ts';

const steps: JournalEntry[] = [
  {
    v: 1,
    kind: 'assistant',
    message: {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: '…', signature: 'sig', model: 'm' },
        { type: 'tool_use', id: 'c1', name: 'now', input: { zone: 'Asia/Shanghai', empty: {}, list: [] } },
      ],
    },
    model: 'm',
    stop: 'tool_use',
    usage: { input: 5, output: 1, cached: 0 },
  },
  { v: 1, kind: 'tool_start', call_id: 'c1' },
  {
    v: 1,
    kind: 'tool_result',
    call_id: 'c1',
    block: { type: 'tool_result', tool_use_id: 'c1', content: '12:00' },
    terminate: true,
  },
  { v: 1, kind: 'steered', messages: ['m2'] },
];

export function recoveryContract(name: string, make: MakeBacking): void {
  describe(`${name}: recovery`, () => {
    const backing = useBacking(make);
    const open = async () => (await backing().open()).store;

    describe('an interrupted run', () => {
      it('is resumed: its own id, its messages with those drained, its journal', async () => {
        const [a, b] = [await open(), await open()];
        await a.append(inbound('acct:a', 'm1'));
        const first = await claimed(a, 'acct:a', 'r1');
        await a.append(inbound('acct:a', 'm2'));
        await a.drain(first.lease, 10);
        expect(await a.journal(first.lease, steps.slice(0, 2))).toBe(true);
        expect(await a.journal(first.lease, steps.slice(2))).toBe(true);
        await a.append(inbound('acct:a', 'm3'));
        await a.renew(first.lease, 20);

        const second = await claimedLater(b, 'acct:a', 'r2');
        expect(second.lease.run).toBe('r1');
        expect(second.snapshot.inbox).toEqual([inbound('acct:a', 'm1'), inbound('acct:a', 'm2')]);
        expect(second.snapshot.journal).toEqual(steps);
        expect(second.snapshot.attempt).toBe(2);

        expect(await b.journal(second.lease, [{ v: 1, kind: 'tool_start', call_id: 'c2' }])).toBe(true);
        expect(await b.drain(second.lease, 10)).toEqual([inbound('acct:a', 'm3')]);
        await b.renew(second.lease, 20);
        const third = await claimedLater(a, 'acct:a', 'r3');
        expect(third.lease.run).toBe('r1');
        expect(third.snapshot.inbox.map((message) => message.id)).toEqual(['m1', 'm2', 'm3']);
        expect(third.snapshot.journal).toEqual([...steps, { v: 1, kind: 'tool_start', call_id: 'c2' }]);
        expect(third.snapshot.attempt).toBe(3);
      });

      it('that journaled a step is not joined by messages that arrived after it, until it drains them', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const first = await claimed(store, 'acct:a', 'r1', { leaseMs: 20 });
        await store.journal(first.lease, steps);
        await store.append(inbound('acct:a', 'm2'));
        const { lease, snapshot } = await claimedLater(store, 'acct:a', 'r2');
        expect(snapshot.inbox.map((message) => message.id)).toEqual(['m1']);
        expect(await store.commit(lease, merge())).toEqual({ more: true });
      });

      it('comes back whole, even if it took more than the limit of the new claim', async () => {
        const store = await open();
        for (const id of ['m1', 'm2', 'm3']) await store.append(inbound('acct:a', id));
        await claimed(store, 'acct:a', 'r1', { leaseMs: 20 });
        await store.append(inbound('acct:a', 'm4'));
        const { snapshot } = await claimedLater(store, 'acct:a', 'r2', { limit: 1 });
        expect(snapshot.inbox.map((message) => message.id)).toEqual(['m1', 'm2', 'm3']);
      });

      it('is answered once: the one who took over commits, the old one is refused', async () => {
        const { store, reader } = await backing().open();
        await store.append(inbound('acct:a', 'm1'));
        const old = await claimed(store, 'acct:a', 'r1', { leaseMs: 20 });
        const next = await claimedLater(store, 'acct:a', 'r2');
        const entries = [userEntry('r1', 'q'), assistantEntry('r1', 'a')];
        const results = await Promise.all([
          store.commit(old.lease, merge({ entries })),
          store.commit(next.lease, merge({ entries })),
        ]);
        expect(results).toEqual([false, { more: false }]);
        expect((await reader.history('acct:a', { limit: 10 })).items).toEqual(entries);
        expect(await reader.status('acct:a', 'm1')).toMatchObject({ state: 'done', run: 'r1' });
      });

      it('that was handed back is free at once, and the attempt does not count', async () => {
        const [a, b] = [await open(), await open()];
        await a.append(inbound('acct:a', 'm1'));
        const first = await claimed(a, 'acct:a', 'r1');
        await a.journal(first.lease, steps);
        for (let n = 0; n < 3; n += 1) {
          const lease = n === 0 ? first.lease : (await claimed(a, 'acct:a', `again${n}`)).lease;
          expect(await a.release(lease)).toBe(true);
        }
        const { lease, snapshot } = await claimed(b, 'acct:a', 'r2', { leaseMs: 20 });
        expect(lease.run).toBe('r1');
        expect(snapshot).toMatchObject({ attempt: 1, journal: steps });
        expect((await claimedLater(a, 'acct:a', 'r3')).snapshot.attempt).toBe(2);
      });

      it('that had done nothing yet takes what joined meanwhile, up to the limit and the first that may not', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const first = await claimed(store, 'acct:a', 'r1');
        for (const id of ['m2', 'm3', 'm4']) await store.append(inbound('acct:a', id));
        await store.release(first.lease);
        const second = await claimed(store, 'acct:a', 'r2', { limit: 3 });
        expect(second.lease.run).toBe('r1');
        expect(second.snapshot.inbox.map(({ id }) => id)).toEqual(['m1', 'm2', 'm3']);
        await store.append(inbound('acct:a', 'm5', { busy: 'followup' }));
        await store.release(second.lease);
        const third = await claimed(store, 'acct:a', 'r3', { limit: 9 });
        expect(third.snapshot.inbox.map(({ id }) => id)).toEqual(['m1', 'm2', 'm3', 'm4']);
        expect(await store.commit(third.lease, merge())).toEqual({ more: true });
      });

      it('leaves nothing to the run after it', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1', { leaseMs: 20 });
        await store.journal(lease, steps);
        const second = await claimedLater(store, 'acct:a', 'r2');
        await store.commit(second.lease, merge());
        await store.append(inbound('acct:a', 'm2'));
        const third = await claimed(store, 'acct:a', 'r3');
        expect(third.lease.run).toBe('r3');
        expect(third.snapshot).toMatchObject({ journal: [], attempt: 1, cancelled: false });
        expect(await store.journal(third.lease, steps.slice(0, 1))).toBe(true);
        await store.release(third.lease);
        expect((await claimed(store, 'acct:a', 'r4')).snapshot.journal).toEqual(steps.slice(0, 1));
      });
    });

    describe('cancel', () => {
      it('is seen by renew, by the next claim, and is over with the commit', async () => {
        const { store, control } = await backing().open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        expect(await control.cancel('acct:a')).toBe('r1');
        expect(await store.renew(lease, 20)).toEqual({ cancelled: true });
        const second = await claimedLater(store, 'acct:a', 'r2');
        expect(second.snapshot.cancelled).toBe(true);
        expect(second.lease.run).toBe('r1');
        const entries = [userEntry('r1', 'kept')];
        expect(await store.commit(second.lease, merge({ entries }))).toEqual({ more: false });

        await store.append(inbound('acct:a', 'm2'));
        const third = await claimed(store, 'acct:a', 'r3');
        expect(third.snapshot).toMatchObject({ cancelled: false, context: entries });
      });

      it('reaches a run that was interrupted and not taken over yet', async () => {
        const { store, control } = await backing().open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        await store.release(lease);
        expect(await control.cancel('acct:a')).toBe('r1');
        expect((await claimed(store, 'acct:a', 'r2')).snapshot.cancelled).toBe(true);
      });
    });

    describe('reset', () => {
      it('empties history and summary', async () => {
        const { store, reader } = await backing().open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        const entries = [userEntry('r1', 'q'), assistantEntry('r1', 'a')];
        await store.commit(lease, merge({ entries, context: { from: 1, summary: 's' } }));
        expect(await store.reset('acct:a')).toEqual({});
        expect(await reader.history('acct:a', { limit: 10 })).toEqual({ items: [] });
        const state = await reader.state('acct:a');
        expect(state).toMatchObject({ length: 0, pending: 0 });
        expect(state.summary).toBeUndefined();

        await store.append(inbound('acct:a', 'm2'));
        const next = await claimed(store, 'acct:a', 'r2');
        expect(next.lease.generation).toBeGreaterThan(lease.generation);
        expect(next.snapshot).toMatchObject({ context: [], contextFrom: 0 });
        expect(next.snapshot.summary).toBeUndefined();
        await store.commit(next.lease, merge({ entries: [userEntry('r2', 'new')] }));
        expect((await reader.history('acct:a', { limit: 10 })).items).toEqual([userEntry('r2', 'new')]);
      });

      it('of a conversation nobody knows is harmless', async () => {
        const store = await open();
        expect(await store.reset('acct:none')).toEqual({});
      });

      it('keeps the messages that wait', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        await store.reset('acct:a');
        expect((await claimed(store, 'acct:a', 'r1')).snapshot.inbox).toHaveLength(1);
      });

      it('cancels the active run, which gives its answer and merges nothing', async () => {
        const { store, reader, outbox } = await backing().open();
        await store.append(inbound('acct:a', 'm0'));
        await store.commit(
          (await claimed(store, 'acct:a', 'r0')).lease,
          merge({ entries: [userEntry('r0', 'old')], usage: { input: 1, output: 1, cached: 1 } }),
        );
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        await store.journal(lease, steps);
        expect(await store.reset('acct:a')).toEqual({ cancelledRun: 'r1' });
        expect(await store.renew(lease, LONG_MS)).toEqual({ cancelled: true });
        expect((await reader.history('acct:a', { limit: 10 })).items).toEqual([]);

        await store.append(inbound('acct:a', 'm2'));
        const done = await store.commit(
          lease,
          merge({
            entries: [userEntry('r1', 'must not appear')],
            deliveries: [delivery('acct:a', 'r1.0')],
            outcome: { status: 'done', reply: { text: 'cancelled' } },
            context: { from: 1, summary: 'must not appear' },
            usage: { input: 2, output: 2, cached: 2 },
          }),
        );
        expect(done).toEqual({ more: true });
        expect((await reader.history('acct:a', { limit: 10 })).items).toEqual([]);
        // Tokens were spent, whatever became of the text.
        expect(await reader.state('acct:a')).toEqual({
          pending: 1,
          length: 0,
          usage: { input: 3, output: 3, cached: 3 },
        });
        expect(await reader.status('acct:a', 'm1')).toEqual({
          state: 'done',
          reply: { text: 'cancelled' },
          run: 'r1',
        });
        expect(await outbox.claim('acct:a', LONG_MS)).toMatchObject({
          status: 'claimed',
          delivery: { id: 'r1.0' },
        });

        const next = await claimed(store, 'acct:a', 'r2');
        expect(next.snapshot).toMatchObject({ context: [], contextFrom: 0, journal: [], cancelled: false });
        expect(next.snapshot.summary).toBeUndefined();
        await store.commit(next.lease, merge({ entries: [userEntry('r2', 'new')] }));
        expect((await reader.history('acct:a', { limit: 10 })).items).toEqual([userEntry('r2', 'new')]);
      });

      it('cancels an interrupted run; who takes it over merges nothing either', async () => {
        const { store, reader } = await backing().open();
        await store.append(inbound('acct:a', 'm1'));
        const first = await claimed(store, 'acct:a', 'r1');
        await store.journal(first.lease, steps);
        await store.release(first.lease);
        expect(await store.reset('acct:a')).toEqual({ cancelledRun: 'r1' });
        const second = await claimed(store, 'acct:a', 'r2');
        expect(second.lease.run).toBe('r1');
        expect(second.snapshot).toMatchObject({ cancelled: true, journal: [], attempt: 1 });
        const entries = [userEntry('r1', 'must not appear')];
        expect(await store.commit(second.lease, merge({ entries }))).toEqual({ more: false });
        expect((await reader.state('acct:a')).length).toBe(0);
        expect(await reader.status('acct:a', 'm1')).toMatchObject({ state: 'done' });
      });
    });
  });
}
