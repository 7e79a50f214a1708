// Contract of ConversationStore, part one: inbox, claim, lease, drain and commit. See recovery.ts and limits.ts.
import { describe, expect, it } from 'vitest';
import {
  LONG_MS,
  assistantEntry,
  claimed,
  claimedLater,
  collect,
  inbound,
  merge,
  useBacking,
  userEntry,
} from './support.ts';
import type { MakeBacking } from './support.ts';

const ids = (messages: { id: string }[] | undefined) => messages?.map((message) => message.id);

export function storeContract(name: string, make: MakeBacking): void {
  describe(`${name}: store`, () => {
    const backing = useBacking(make);
    const open = async () => (await backing().open()).store;

    describe('append', () => {
      it('keeps the order of arrival, also of appends in flight at once', async () => {
        const store = await open();
        const sent = Array.from({ length: 50 }, (_, n) => inbound('acct:a', `m${n}`));
        await Promise.all(sent.map((message) => store.append(message)));
        const { snapshot } = await claimed(store, 'acct:a', 'r1', { limit: 100 });
        expect(snapshot.inbox).toEqual(sent);
      });

      it('drops a message whose id was seen in this conversation, and only there', async () => {
        const store = await open();
        expect(await store.append(inbound('acct:a', 'm1', { text: 'first' }))).toEqual({ duplicate: false });
        expect(await store.append(inbound('acct:a', 'm1', { text: 'second' }))).toEqual({ duplicate: true });
        expect(await store.append(inbound('acct:b', 'm1'))).toEqual({ duplicate: false });
        const { snapshot } = await claimed(store, 'acct:a', 'r1');
        expect(snapshot.inbox.map((message) => message.text)).toEqual(['first']);
      });

      it('recognises a duplicate while its message is being answered, afterwards, and after a reset', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        expect(await store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: true });
        expect(await store.commit(lease, merge())).toEqual({ more: false });
        expect(await store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: true });
        await store.reset('acct:a');
        expect(await store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: true });
        expect(await store.claim('acct:a', { run: 'r2', leaseMs: LONG_MS, limit: 20 })).toEqual({
          status: 'empty',
        });
      });

      it('takes one of many equal messages that arrive at once by different ways', async () => {
        const [a, b] = [await open(), await open()];
        const results = await Promise.all(
          Array.from({ length: 10 }, (_, n) => (n % 2 ? a : b).append(inbound('acct:a', 'm1'))),
        );
        expect(results.filter((result) => !result.duplicate)).toHaveLength(1);
      });

      it('takes no more than may wait, of messages that come at once too; a duplicate is one all the same', async () => {
        const { store, reader } = await backing().open();
        const append = (id: string) => store.append(inbound('acct:a', id), { maxWaiting: 3 });
        const results = await Promise.all(['m0', 'm1', 'm2', 'm3', 'm4'].map(append));
        expect(results.map(({ full = false }) => full)).toEqual([false, false, false, true, true]);
        expect(await append('m1')).toEqual({ duplicate: true });
        expect(await reader.status('acct:a', 'm3')).toBeUndefined();
        expect(await store.append(inbound('acct:b', 'm3'), { maxWaiting: 3 })).toEqual({ duplicate: false });
        const { lease, snapshot } = await claimed(store, 'acct:a', 'r1', { limit: 2 });
        expect(ids(snapshot.inbox)).toEqual(['m0', 'm1']);
        // Those of the active run count until they are answered.
        expect(await append('m3')).toMatchObject({ full: true });
        expect(await store.commit(lease, merge())).toEqual({ more: true });
        expect((await reader.state('acct:a')).pending).toBe(1);
        expect(await append('m3')).toEqual({ duplicate: false });
        const next = await claimed(store, 'acct:a', 'r2');
        expect(ids(next.snapshot.inbox)).toEqual(['m2', 'm3']);
        expect(await store.commit(next.lease, merge())).toEqual({ more: false });
        expect((await reader.state('acct:a')).pending).toBe(0);
      });

      it('gives back every field of a message', async () => {
        const store = await open();
        const message = inbound('acct:a', 'm1', {
          attachments: [{ type: 'image', ref: 'blob/1', media_type: 'image/png', name: 'a.png', size: 3 }],
          group: true,
          busy: 'followup',
          replyTo: { key: 'k', address: { url: 'https://example.org', nested: { list: [1, null, true] } } },
        });
        await store.append(message);
        expect((await claimed(store, 'acct:a', 'r1')).snapshot.inbox).toEqual([message]);
      });
    });

    describe('claim', () => {
      it('finds nothing in a conversation that was never heard of, or that is finished', async () => {
        const store = await open();
        const options = { run: 'r1', leaseMs: LONG_MS, limit: 20 };
        expect(await store.claim('acct:none', options)).toEqual({ status: 'empty' });
        await store.append(inbound('acct:a', 'm1'));
        await store.commit((await claimed(store, 'acct:a', 'r1')).lease, merge());
        expect(await store.claim('acct:a', options)).toEqual({ status: 'empty' });
      });

      it('starts a new run with what is there', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease, snapshot } = await claimed(store, 'acct:a', 'r1');
        expect(lease).toMatchObject({ conversation: 'acct:a', run: 'r1' });
        expect(snapshot).toEqual({
          context: [],
          contextFrom: 0,
          inbox: [inbound('acct:a', 'm1')],
          journal: [],
          attempt: 1,
          cancelled: false,
        });
      });

      it('is refused while a lease is live, and says for how long', async () => {
        const [a, b] = [await open(), await open()];
        await a.append(inbound('acct:a', 'm1'));
        await claimed(a, 'acct:a', 'r1', { leaseMs: 60_000 });
        for (const store of [a, b]) {
          const second = await store.claim('acct:a', { run: 'r2', leaseMs: LONG_MS, limit: 20 });
          if (second.status !== 'held') throw new Error(second.status);
          expect(second.forMs).toBeGreaterThan(0);
          expect(second.forMs).toBeLessThanOrEqual(60_000);
        }
      });

      it('gives the conversation to one of two claimants', async () => {
        const [a, b] = [await open(), await open()];
        for (let n = 0; n < 20; n += 1) {
          await a.append(inbound(`acct:${n}`, 'm1'));
          const options = { leaseMs: LONG_MS, limit: 20 };
          const results = await Promise.all([
            a.claim(`acct:${n}`, { run: 'ra', ...options }),
            b.claim(`acct:${n}`, { run: 'rb', ...options }),
          ]);
          expect(results.map((result) => result.status).sort()).toEqual(['claimed', 'held']);
        }
      });

      it('keeps conversations apart', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        await store.append(inbound('acct:b', 'm2'));
        expect(ids((await claimed(store, 'acct:a', 'r1')).snapshot.inbox)).toEqual(['m1']);
        expect(ids((await claimed(store, 'acct:b', 'r2')).snapshot.inbox)).toEqual(['m2']);
      });

      it('takes what may join, up to the limit and up to the first that may not', async () => {
        const store = await open();
        const busy = ['followup', 'collect', 'steer', 'interrupt', 'followup', 'followup', 'steer'] as const;
        for (const [n, mode] of busy.entries())
          await store.append(inbound('acct:a', `m${n}`, { busy: mode }));
        const taken: (string[] | undefined)[] = [];
        const more: boolean[] = [];
        for (let n = 0; n < 4; n += 1) {
          const { lease, snapshot } = await claimed(store, 'acct:a', `r${n}`, { limit: 3 });
          taken.push(ids(snapshot.inbox));
          const done = await store.commit(lease, merge());
          if (done === false) throw new Error('refused');
          more.push(done.more);
        }
        expect(taken).toEqual([['m0', 'm1', 'm2'], ['m3'], ['m4'], ['m5', 'm6']]);
        expect(more).toEqual([true, true, true, false]);
      });

      it('raises the epoch each time', async () => {
        const store = await open();
        const epochs: number[] = [];
        for (let n = 0; n < 3; n += 1) {
          await store.append(inbound('acct:a', `m${n}`));
          const { lease } = await claimed(store, 'acct:a', `r${n}`);
          epochs.push(lease.epoch);
          await store.commit(lease, merge());
        }
        expect(epochs).toEqual([...new Set(epochs)].sort((x, y) => x - y));
      });
    });

    describe('lease', () => {
      it('expires by the clock of the store; the next claimant takes over', async () => {
        const [a, b] = [await open(), await open()];
        await a.append(inbound('acct:a', 'm1'));
        const first = await claimed(a, 'acct:a', 'r1', { leaseMs: 50 });
        const second = await claimedLater(b, 'acct:a', 'r2');
        expect(second.lease.epoch).toBeGreaterThan(first.lease.epoch);
      });

      it('is extended by renew', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1', { leaseMs: 5_000 });
        expect(await store.renew(lease, LONG_MS)).toEqual({ cancelled: false });
        const other = await store.claim('acct:a', { run: 'r2', leaseMs: 1, limit: 1 });
        if (other.status !== 'held') throw new Error(other.status);
        expect(other.forMs).toBeGreaterThan(5_000);
      });

      it('that expired with nobody taking over still commits', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1', { leaseMs: 1 });
        const { reader } = await backing().open();
        await expect.poll(async () => (await reader.state('acct:a')).run).toBeUndefined();
        expect(await store.journal(lease, [{ v: 1, kind: 'tool_start', call_id: 'c1' }])).toBe(true);
        expect(await store.commit(lease, merge())).toEqual({ more: false });
      });

      it('once taken over, is refused everything and changes nothing', async () => {
        const storage = await backing().open();
        const other = await open();
        const { store, reader } = storage;
        await store.append(inbound('acct:a', 'm1'));
        const { lease: stale } = await claimed(store, 'acct:a', 'r1', { leaseMs: 20 });
        const { lease } = await claimedLater(other, 'acct:a', 'r2');
        await store.append(inbound('acct:a', 'm2'));

        expect(await store.renew(stale, LONG_MS)).toBeUndefined();
        expect(await store.release(stale)).toBe(false);
        expect(await store.journal(stale, [{ v: 1, kind: 'tool_start', call_id: 'stale' }])).toBe(false);
        expect(await store.drain(stale, 10)).toBeUndefined();
        const theft = merge({
          entries: [userEntry('r1', 'stale')],
          deliveries: [],
          outcome: { status: 'failed', reply: { text: 'stale' } },
          context: { from: 5, summary: 'stale' },
          usage: { input: 1, output: 1, cached: 1 },
        });
        expect(await store.commit(stale, theft)).toBe(false);

        expect(await reader.state('acct:a')).toEqual({
          pending: 2,
          run: lease.run,
          length: 0,
          usage: { input: 0, output: 0, cached: 0 },
        });
        expect((await reader.history('acct:a', { limit: 10 })).items).toEqual([]);
        expect(await reader.status('acct:a', 'm1')).toMatchObject({ state: 'running' });
        expect(await reader.status('acct:a', 'm2')).toMatchObject({ state: 'queued' });
        expect(ids(await store.drain(lease, 10))).toEqual(['m2']);
        expect(await store.release(lease)).toBe(true);
        expect((await claimed(store, 'acct:a', 'r3')).snapshot.journal).toEqual([]);
      });

      it('is over after commit and after release', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease: released } = await claimed(store, 'acct:a', 'r1');
        expect(await store.release(released)).toBe(true);
        const { lease: committed } = await (async () => {
          for (const refused of [
            await store.release(released),
            await store.commit(released, merge()),
            await store.journal(released, []),
          ])
            expect(refused).toBe(false);
          expect(await store.renew(released, LONG_MS)).toBeUndefined();
          return claimed(store, 'acct:a', 'r2');
        })();
        expect(await store.commit(committed, merge())).toEqual({ more: false });
        expect(await store.commit(committed, merge())).toBe(false);
        expect(await store.journal(committed, [])).toBe(false);
        expect(await store.renew(committed, LONG_MS)).toBeUndefined();
        expect(await store.drain(committed, 1)).toBeUndefined();
        expect(await store.release(committed)).toBe(false);
      });

      it('of a conversation nobody knows is stale', async () => {
        const store = await open();
        const lease = { conversation: 'acct:none', run: 'r1', epoch: 1, generation: 0 };
        expect(await store.renew(lease, LONG_MS)).toBeUndefined();
        expect(await store.commit(lease, merge())).toBe(false);
        expect(await store.release(lease)).toBe(false);
      });
    });

    describe('drain', () => {
      it('takes what arrived since, once, up to the limit', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        expect(await store.drain(lease, 10)).toEqual([]);
        for (const id of ['m2', 'm3', 'm4']) await store.append(inbound('acct:a', id));
        expect(ids(await store.drain(lease, 2))).toEqual(['m2', 'm3']);
        expect(ids(await store.drain(lease, 2))).toEqual(['m4']);
        expect(await store.drain(lease, 2)).toEqual([]);
      });

      it('stops at a message that wants an answer of its own', async () => {
        const store = await open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        await store.append(inbound('acct:a', 'm2'));
        await store.append(inbound('acct:a', 'm3', { busy: 'followup' }));
        await store.append(inbound('acct:a', 'm4'));
        expect(ids(await store.drain(lease, 10))).toEqual(['m2']);
        expect(await store.drain(lease, 10)).toEqual([]);
        expect(await store.commit(lease, merge())).toEqual({ more: true });
        expect(ids((await claimed(store, 'acct:a', 'r2')).snapshot.inbox)).toEqual(['m3', 'm4']);
      });
    });

    describe('commit', () => {
      it('merges all of it at once', async () => {
        const { store, reader, outbox } = await backing().open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        await store.append(inbound('acct:a', 'm2'));
        await store.drain(lease, 10);
        await store.append(inbound('acct:a', 'm3'));
        await store.journal(lease, [{ v: 1, kind: 'steered', messages: ['m2'] }]);

        const entries = [userEntry('r1', 'q'), assistantEntry('r1', 'a')];
        const reply = { text: 'a', attachments: [{ type: 'file' as const, ref: 'blob/2' }] };
        const sent = {
          id: 'r1.0',
          conversation: 'acct:a',
          account: 'acct',
          run: 'r1',
          messages: ['m1', 'm2'],
          address: { to: 'x' },
          status: 'done' as const,
          reply,
          at: 9,
        };
        const usage = { input: 10, output: 2, cached: 4 };
        expect(
          await store.commit(
            lease,
            merge({ entries, deliveries: [sent], outcome: { status: 'done', reply }, usage }),
          ),
        ).toEqual({ more: true });

        expect((await reader.history('acct:a', { limit: 10 })).items).toEqual(entries);
        expect(await reader.state('acct:a')).toEqual({ pending: 1, length: 2, usage });
        for (const id of ['m1', 'm2'])
          expect(await reader.status('acct:a', id)).toEqual({ state: 'done', reply, run: 'r1' });
        expect(await outbox.claim('acct:a', LONG_MS)).toMatchObject({
          status: 'claimed',
          delivery: sent,
          attempt: 1,
        });

        const next = await claimed(store, 'acct:a', 'r2');
        expect(next.snapshot).toEqual({
          context: entries,
          contextFrom: 0,
          inbox: [inbound('acct:a', 'm3')],
          journal: [],
          attempt: 1,
          cancelled: false,
        });
      });

      it('moves the context and replaces the summary; the history stays', async () => {
        const { store, reader } = await backing().open();
        const round = async (n: number, context?: { from: number; summary?: string }) => {
          await store.append(inbound('acct:a', `m${n}`));
          const { lease, snapshot } = await claimed(store, 'acct:a', `r${n}`);
          await store.commit(
            lease,
            merge({
              entries: [userEntry(`r${n}`, `q${n}`), assistantEntry(`r${n}`, `a${n}`)],
              ...(context && { context }),
            }),
          );
          return snapshot;
        };
        await round(1);
        await round(2);
        await round(3, { from: 4, summary: 'about q1 and q2' });
        const fourth = await round(4);
        expect(fourth).toMatchObject({ contextFrom: 4, summary: 'about q1 and q2' });
        expect(fourth.context).toEqual([userEntry('r3', 'q3'), assistantEntry('r3', 'a3')]);
        await round(5, { from: 8 });
        const sixth = await round(6);
        expect(sixth.contextFrom).toBe(8);
        expect(sixth.context).toEqual([userEntry('r5', 'q5'), assistantEntry('r5', 'a5')]);
        expect(sixth.summary).toBeUndefined();
        expect((await reader.state('acct:a')).length).toBe(12);
        expect((await reader.history('acct:a', { limit: 100 })).items).toHaveLength(12);
      });

      it('adds up usage, and gives a failed outcome', async () => {
        const { store, reader } = await backing().open();
        for (let n = 0; n < 3; n += 1) {
          await store.append(inbound('acct:a', `m${n}`));
          const { lease } = await claimed(store, 'acct:a', `r${n}`);
          const outcome = { status: 'failed' as const, reply: { text: 'sorry' } };
          await store.commit(lease, merge({ outcome, usage: { input: 10, output: 2, cached: 1 } }));
        }
        expect((await reader.state('acct:a')).usage).toEqual({ input: 30, output: 6, cached: 3 });
        expect(await reader.status('acct:a', 'm2')).toEqual({
          state: 'failed',
          reply: { text: 'sorry' },
          run: 'r2',
        });
      });

      it('leaves a conversation that is done out of what is pending', async () => {
        const { store, reader } = await backing().open();
        await store.append(inbound('acct:a', 'm1'));
        const { lease } = await claimed(store, 'acct:a', 'r1');
        expect(await collect(reader.pending('lanes'))).toEqual(['acct:a']);
        await store.commit(lease, merge());
        expect(await collect(reader.pending('lanes'))).toEqual([]);
      });
    });
  });
}
