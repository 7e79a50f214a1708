// Contract of ChannelState.
import { describe, expect, it, vi } from 'vitest';
import { LONG_MS, ODD_NAMES, useBacking, type MakeBacking } from './support.ts';

export function channelStateContract(name: string, make: MakeBacking): void {
  describe(`${name}: channel state`, () => {
    const backing = useBacking(make);

    it('keeps the last value of each key for each account, whoever wrote it', async () => {
      const { channelState } = await backing().open();
      const { channelState: other } = await backing().open();
      expect(await channelState('a').get('cursor')).toBeUndefined();
      await channelState('a').set('cursor', 'one');
      await channelState('b').set('cursor', 'elsewhere');
      await other('a').set('cursor', 'two');
      await other('a').set('login', { token: 'größer "als" 微信', at: 1, nothing: null });
      expect(await channelState('a').get('cursor')).toBe('two');
      expect(await channelState('a').get('login')).toEqual({
        token: 'größer "als" 微信',
        at: 1,
        nothing: null,
      });
      expect(await other('b').get('cursor')).toBe('elsewhere');
    });

    it('forgets what is deleted, as often as it is said', async () => {
      const { channelState } = await backing().open();
      const state = channelState('a');
      await state.set('login', { token: 't' });
      await state.set('cursor', '');
      await state.delete('login');
      await state.delete('login');
      expect(await state.get('login')).toBeUndefined();
      expect(await state.get('cursor')).toBe('');
    });

    it('takes any account and key', async () => {
      const { channelState } = await backing().open();
      const odd = [...ODD_NAMES, 'constructor', '__proto__'];
      for (const key of odd) await channelState(key).set(key, [key]);
      for (const key of odd) {
        expect(await channelState(key).get(key)).toEqual([key]);
        expect(await channelState(key).get(`${key}x`)).toBeUndefined();
      }
    });

    it('lets one holder of many act for an account, and another one when that is over', async () => {
      const first = (await backing().open()).channelState('a');
      const second = (await backing().open()).channelState('a');
      const taken = await Promise.all([
        first.lease('g1', LONG_MS),
        second.lease('g2', LONG_MS),
        first.lease('g3', LONG_MS),
      ]);
      expect(taken.filter(Boolean)).toHaveLength(1);
      const holder = `g${taken.indexOf(true) + 1}`;
      expect(await second.lease(holder, LONG_MS)).toBe(true);
      expect(await second.lease('g9', LONG_MS)).toBe(false);
      // Somebody else's is not theirs to give back.
      await second.release('g9');
      expect(await second.lease('g9', LONG_MS)).toBe(false);
      await first.release(holder);
      expect(await second.lease('g9', LONG_MS)).toBe(true);
      expect(await first.lease(holder, LONG_MS)).toBe(false);
    });

    it('takes a lease that was not renewed away, and leaves other accounts alone', async () => {
      const { channelState } = await backing().open();
      expect(await channelState('a').lease('g1', 30)).toBe(true);
      expect(await channelState('b').lease('g2', LONG_MS)).toBe(true);
      await vi.waitFor(async () => expect(await channelState('a').lease('g2', LONG_MS)).toBe(true), {
        interval: 5,
      });
      expect(await channelState('a').lease('g1', LONG_MS)).toBe(false);
      expect(await channelState('b').lease('g1', LONG_MS)).toBe(false);
    });
  });
}
