// Contract of MessageIndex.
import { describe, expect, it } from 'vitest';
import { useBacking } from './support.ts';
import type { MakeBacking } from './support.ts';

export function indexContract(name: string, make: MakeBacking): void {
  describe(`${name}: message index`, () => {
    const backing = useBacking(make);

    it('remembers the first entry, and gives it back to every later one', async () => {
      const { index } = await backing().open();
      const { index: other } = await backing().open();
      const first = { conversation: 'acct:a', fingerprint: 'f1' };
      expect(await index.find('acct', 'm1')).toBeUndefined();
      expect(await index.remember('acct', 'm1', first)).toBeUndefined();
      expect(await other.remember('acct', 'm1', { conversation: 'acct:b', fingerprint: 'f2' })).toEqual(
        first,
      );
      expect(await other.find('acct', 'm1')).toEqual(first);
    });

    it('keeps accounts apart, also where the joined names are the same', async () => {
      const { index } = await backing().open();
      await index.remember('a', 'b:c', { conversation: '1', fingerprint: '1' });
      expect(await index.find('a:b', 'c')).toBeUndefined();
      expect(await index.find('b', 'b:c')).toBeUndefined();
    });

    it('lets one of many at once win', async () => {
      const { index } = await backing().open();
      const { index: other } = await backing().open();
      const known = await Promise.all(
        Array.from({ length: 10 }, (_, n) =>
          (n % 2 ? index : other).remember('acct', 'm1', { conversation: `${n}`, fingerprint: `${n}` }),
        ),
      );
      expect(known.filter((entry) => entry === undefined)).toHaveLength(1);
      const winner = known.findIndex((entry) => entry === undefined);
      expect(await index.find('acct', 'm1')).toEqual({ conversation: `${winner}`, fingerprint: `${winner}` });
    });
  });
}
