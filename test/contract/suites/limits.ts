// Contract of ConversationStore, part three: sizes and odd data. Costs stay flat, bytes come back as they went in.
import { describe, expect, it } from 'vitest';
import {
  LONG_MS,
  ODD_NAMES,
  assistantEntry,
  claimed,
  collect,
  delivery,
  inbound,
  merge,
  useBacking,
  userEntry,
} from './support.ts';
import type { MakeBacking } from './support.ts';

const TEXTS = {
  chinese: '你好，世界。',
  emoji: '👩🏽‍🚀🏳️‍🌈 and 𝒻𝒶𝓃𝒸𝓎',
  'right to left': 'שלום \u202Eabc\u202C',
  combining: 'e\u0301\u0323'.repeat(10),
  'control characters': '\u0000\u0001\u001F\u007F\u2028\u2029',
  'a lone surrogate': 'x\uD83Dy',
  'JSON in it': '{"a":"\\u0041\\\\"}',
  empty: '',
};

const median = (values: number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

export function limitsContract(name: string, make: MakeBacking): void {
  describe(`${name}: limits`, () => {
    const backing = useBacking(make);

    it.each(Object.entries(TEXTS))('text: %s', async (_, text) => {
      const { store, reader } = await backing().open();
      await store.append(inbound('acct:a', 'm1', { text, sender: { id: text, name: text } }));
      const { lease, snapshot } = await claimed(store, 'acct:a', 'r1');
      expect(snapshot.inbox[0]).toEqual(inbound('acct:a', 'm1', { text, sender: { id: text, name: text } }));
      const entries = [userEntry('r1', text)];
      await store.commit(
        lease,
        merge({ entries, outcome: { status: 'done', reply: { text } }, context: { from: 0, summary: text } }),
      );
      expect((await reader.history('acct:a', { limit: 1 })).items).toEqual(entries);
      expect((await reader.status('acct:a', 'm1'))?.reply?.text).toBe(text);
    });

    it('messages of a megabyte', async () => {
      const { store, reader, outbox } = await backing().open();
      const text = '大'.repeat(350_000);
      await store.append(inbound('acct:a', 'm1', { text }));
      const { lease, snapshot } = await claimed(store, 'acct:a', 'r1');
      expect(snapshot.inbox[0]?.text === text).toBe(true);
      await store.journal(lease, [
        { v: 1, kind: 'assistant', message: { role: 'assistant', content: [{ type: 'text', text }] } },
      ]);
      await store.release(lease);
      const again = await claimed(store, 'acct:a', 'r2');
      expect(JSON.stringify(again.snapshot.journal).includes(text)).toBe(true);
      await store.commit(
        again.lease,
        merge({
          entries: [userEntry('r1', text), assistantEntry('r1', text)],
          deliveries: [delivery('acct:a', 'r1.0', { reply: { text } })],
          outcome: { status: 'done', reply: { text } },
        }),
      );
      const { items } = await reader.history('acct:a', { limit: 10 });
      expect(items).toHaveLength(2);
      expect(JSON.stringify(items[1]).includes(text)).toBe(true);
      expect((await reader.status('acct:a', 'm1'))?.reply?.text === text).toBe(true);
      const sending = await outbox.claim('acct:a', LONG_MS);
      expect(sending.status === 'claimed' && sending.delivery.reply.text === text).toBe(true);
    });

    it('odd conversation ids, message ids and run ids are data and nothing else', async () => {
      const { store, reader, outbox, index, control } = await backing().open();
      const conversations = ODD_NAMES.map((chat) => `acct:${chat}`);
      for (const [n, conversation] of conversations.entries()) {
        for (const id of ODD_NAMES)
          expect(await store.append(inbound(conversation, id, { text: `${n}` }))).toEqual({
            duplicate: false,
          });
      }
      expect((await collect(reader.pending('lanes'))).sort()).toEqual([...conversations].sort());
      for (const [n, conversation] of conversations.entries()) {
        const run = `run ${ODD_NAMES[n]}`;
        const { lease, snapshot } = await claimed(store, conversation, run, { limit: 100 });
        expect(snapshot.inbox.map((message) => message.id)).toEqual(ODD_NAMES);
        expect(snapshot.inbox.every((message) => message.text === `${n}`)).toBe(true);
        expect(lease).toMatchObject({ conversation, run });
        expect(await control.cancel(conversation)).toBe(run);
        await store.journal(lease, [{ v: 1, kind: 'tool_start', call_id: run }]);
        expect(
          await store.commit(
            lease,
            merge({
              entries: [userEntry(run, `${n}`)],
              deliveries: [delivery(conversation, `${run}.0`, { reply: { text: `${n}` } })],
              outcome: { status: 'done', reply: { text: `${n}` } },
            }),
          ),
        ).toEqual({ more: false });
      }
      expect((await collect(reader.pending('lanes'))).sort()).toEqual([]);
      expect((await collect(reader.pending('outbox'))).sort()).toEqual([...conversations].sort());
      for (const [n, conversation] of conversations.entries()) {
        const run = `run ${ODD_NAMES[n]}`;
        expect((await reader.history(conversation, { limit: 10 })).items).toEqual([userEntry(run, `${n}`)]);
        for (const id of ODD_NAMES)
          expect(await reader.status(conversation, id)).toEqual({
            state: 'done',
            reply: { text: `${n}` },
            run,
          });
        const sending = await outbox.claim(conversation, LONG_MS);
        if (sending.status !== 'claimed') throw new Error(sending.status);
        expect(sending.delivery).toMatchObject({ id: `${run}.0`, conversation });
        await outbox.park(sending.lease, 'no');
        expect(await outbox.retry(`${run}.0`)).toBe(conversation);
      }
      expect((await reader.list({ limit: 100 })).items.map((item) => item.id).sort()).toEqual(
        [...conversations].sort(),
      );
      for (const id of ODD_NAMES)
        expect(
          await index.remember('acct', id, { conversation: `acct:${id}`, fingerprint: id }),
        ).toBeUndefined();
      for (const id of ODD_NAMES)
        expect(await index.find('acct', id)).toEqual({ conversation: `acct:${id}`, fingerprint: id });
    });

    it('ten thousand messages in one conversation: the last ones cost as much as the first', async () => {
      const { store, reader } = await backing().open();
      const total = 10_000;
      const batch = 10;
      for (let n = 0; n < total; n += 500)
        await Promise.all(
          Array.from({ length: 500 }, (_, k) => store.append(inbound('acct:a', `m${n + k}`))),
        );
      expect((await reader.state('acct:a')).pending).toBe(total);

      const costs: number[] = [];
      const answered: string[] = [];
      for (let n = 0; n < total / batch; n += 1) {
        const start = performance.now();
        const { lease, snapshot } = await claimed(store, 'acct:a', `r${n}`, { limit: batch });
        const entries = snapshot.inbox.flatMap((message) => [
          { ...userEntry(lease.run, message.text), id: message.id },
          assistantEntry(lease.run, `reply to ${message.id}`),
        ]);
        const length = snapshot.contextFrom + snapshot.context.length;
        // As compaction does: only the newest turns stay in the context.
        const context = { from: Math.max(0, length - 2 * batch), summary: 'what was before' };
        await store.commit(lease, merge({ entries, context }));
        costs.push(performance.now() - start);
        answered.push(...snapshot.inbox.map((message) => message.id));
      }
      expect(answered).toEqual(Array.from({ length: total }, (_, n) => `m${n}`));
      expect(await reader.state('acct:a')).toMatchObject({ pending: 0, length: 2 * total });

      const page = await reader.history('acct:a', { limit: 1_000 });
      expect(page.items.at(-1)).toEqual(assistantEntry(`r${total / batch - 1}`, `reply to m${total - 1}`));
      expect(page.items[0]).toMatchObject({ id: `m${total - 500}` });
      // A hundred rounds are a thousand messages. Medians, so that one pause of the machine decides nothing.
      expect(median(costs.slice(-100))).toBeLessThan(4 * median(costs.slice(0, 100)) + 1);
    });
  });
}
