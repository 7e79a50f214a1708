// Contracts of the small ports about people and groups: ContextNotes, People, Preferences, Spending.
import { describe, expect, it } from 'vitest';
import type { Note } from '../../../src/domain/inbound.ts';
import { MAX_WAITING_PAIRINGS } from '../../../src/ports/people.ts';
import { ODD_NAMES, useBacking, type MakeBacking } from './support.ts';

const note = (id: string, text = `text of ${id}`): Note => ({
  id,
  at: 1_700_000_000_000,
  sender: { id: 'u1', name: 'Ann' },
  text,
});

export function peopleContract(name: string, make: MakeBacking): void {
  describe(`${name}: context notes`, () => {
    const backing = useBacking(make);

    it('keep the newest, oldest first, once each, for each chat', async () => {
      const { notes } = await backing().open();
      const { notes: other } = await backing().open();
      expect(await notes.list('acct:g')).toEqual([]);
      for (const id of ['a', 'b', 'b', 'c']) await notes.add('acct:g', note(id), 3);
      await other.add('acct:h', note('a', 'elsewhere'), 3);
      expect(await other.list('acct:g')).toEqual([note('a'), note('b'), note('c')]);
      await other.add('acct:g', note('d'), 3);
      expect(await notes.list('acct:g')).toEqual([note('b'), note('c'), note('d')]);
      expect(await notes.list('acct:h')).toEqual([note('a', 'elsewhere')]);
    });

    it('go when they were taken along; those that came meanwhile stay', async () => {
      const { notes } = await backing().open();
      for (const id of ['a', 'b', 'c']) await notes.add('acct:g', note(id), 10);
      await notes.remove('acct:g', ['a', 'b', 'unknown']);
      await notes.remove('acct:g', ['a', 'b']);
      await notes.remove('acct:g', []);
      expect(await notes.list('acct:g')).toEqual([note('c')]);
    });

    it('take any id and chat', async () => {
      const { notes } = await backing().open();
      for (const odd of ODD_NAMES) await notes.add(`acct:${odd}`, note(odd, odd), 2);
      for (const odd of ODD_NAMES) {
        expect(await notes.list(`acct:${odd}`)).toEqual([note(odd, odd)]);
        await notes.remove(`acct:${odd}`, [odd]);
        expect(await notes.list(`acct:${odd}`)).toEqual([]);
      }
    });
  });

  describe(`${name}: people`, () => {
    const backing = useBacking(make);
    const request = (code: string, person = code) => ({ code, account: 'acct', person });

    it('a stranger who asks again has the first code; an approval lets in that person alone', async () => {
      const { people } = await backing().open();
      const { people: other } = await backing().open();
      const first = await people.ask({ ...request('A', 'u1'), name: 'Ann' });
      expect(first).toEqual({ ...request('A', 'u1'), name: 'Ann', at: expect.any(Number) });
      expect(await other.ask(request('B', 'u1'))).toEqual(first);
      expect(await people.approved('acct', 'u1')).toBe(false);
      expect(await people.approve('B', 'boss')).toBeUndefined();
      const approved = await other.approve('A', 'boss "the" 1st');
      expect(approved).toEqual({
        ...first,
        approvedAt: expect.any(Number),
        approvedBy: 'boss "the" 1st',
      });
      expect(await people.approve('A', 'somebody else')).toEqual(approved);
      expect(await people.approved('acct', 'u1')).toBe(true);
      expect(await people.approved('acct2', 'u1')).toBe(false);
      expect(await people.approved('acct', 'u2')).toBe(false);
      expect(await people.ask(request('C', 'u1'))).toEqual(approved);
      expect(await other.list()).toEqual([approved]);
    });

    it('remembers how a person is told', async () => {
      const { people } = await backing().open();
      const tell = {
        conversation: 'acct:c1',
        message: 'm1',
        address: { chat: 'c1', odd: ['"', 7, null], more: { deep: true } },
        language: 'zh' as const,
      };
      expect(await people.ask({ ...request('A'), tell })).toMatchObject({ tell });
      expect(await people.approve('A', 'boss')).toMatchObject({ tell });
      expect(await people.list()).toMatchObject([{ tell }]);
    });

    it('refuses and takes back by code', async () => {
      const { people } = await backing().open();
      await people.ask(request('A'));
      await people.ask(request('B'));
      await people.approve('B', 'boss');
      expect((await people.list()).map(({ code }) => code)).toEqual(['A', 'B']);
      expect(await people.remove('A')).toMatchObject({ person: 'A' });
      expect(await people.remove('B')).toMatchObject({ person: 'B', approvedBy: 'boss' });
      expect(await people.remove('B')).toBeUndefined();
      expect(await people.approved('acct', 'B')).toBe(false);
      expect(await people.list()).toEqual([]);
      expect(await people.ask(request('C', 'A'))).toMatchObject({ code: 'C' });
    });

    it('a crowd of strangers fills nothing; those who are let in make room', async () => {
      const { people } = await backing().open();
      for (let n = 0; n < MAX_WAITING_PAIRINGS; n += 1) await people.ask(request(`c${n}`));
      expect(await people.ask(request('late'))).toBeUndefined();
      expect(await people.ask({ ...request('other'), account: 'acct2' })).toMatchObject({ code: 'other' });
      expect(await people.ask(request('again', 'c7'))).toMatchObject({ code: 'c7' });
      await people.approve('c7', 'boss');
      expect(await people.ask(request('late'))).toMatchObject({ code: 'late' });
    });

    it('take any id', async () => {
      const { people } = await backing().open();
      for (const [n, odd] of ODD_NAMES.entries()) {
        await people.ask({ code: `${n}`, account: 'acct', person: odd, name: odd });
        expect(await people.approve(`${n}`, odd)).toMatchObject({ person: odd, name: odd, approvedBy: odd });
        expect(await people.approved('acct', odd)).toBe(true);
      }
    });
  });

  describe(`${name}: preferences`, () => {
    const backing = useBacking(make);

    it('change field by field, and outlive a reset', async () => {
      const { preferences, store } = await backing().open();
      const { preferences: other } = await backing().open();
      expect(await preferences.get('acct:a')).toEqual({});
      await preferences.set('acct:a', { model: 'big' });
      await other.set('acct:a', { compact: 'r1' });
      await store.reset('acct:a');
      expect(await preferences.get('acct:a')).toEqual({ model: 'big', compact: 'r1' });
      await other.set('acct:a', { model: null });
      expect(await preferences.get('acct:a')).toEqual({ compact: 'r1' });
      expect(await preferences.get('acct:b')).toEqual({});
    });
  });

  describe(`${name}: spending`, () => {
    const backing = useBacking(make);

    it('adds up by day and name, at once or in turn', async () => {
      const { spending } = await backing().open();
      const { spending: other } = await backing().open();
      const usage = { input: 10, output: 2, cached: 3 };
      await Promise.all(
        Array.from({ length: 10 }, (_, n) =>
          (n % 2 ? spending : other).add('2026-11-30', ['u acct u1', `c acct:${n % 2}`], usage),
        ),
      );
      await spending.add('2026-12-01', ['u acct u1'], usage);
      expect(await spending.of('2026-11-30', 'u acct u1')).toEqual({ input: 100, output: 20, cached: 30 });
      expect(await other.of('2026-11-30', 'c acct:1')).toEqual({ input: 50, output: 10, cached: 15 });
      expect(await other.of('2026-12-01', 'u acct u1')).toEqual(usage);
      expect(await other.of('2026-12-01', 'c acct:1')).toEqual({ input: 0, output: 0, cached: 0 });
    });
  });
}
