// Contract of RunControl: signals reach every process, and only for what concerns a run.
import { describe, expect, it, vi } from 'vitest';
import type { RunControl } from '../../../src/ports/control.ts';
import { claimed, inbound, merge, useBacking } from './support.ts';
import type { MakeBacking } from './support.ts';

type Signal = Parameters<Parameters<RunControl['onSignal']>[0]>[0];

export function controlContract(name: string, make: MakeBacking): void {
  describe(`${name}: run control`, () => {
    const backing = useBacking(make);

    const listen = (control: RunControl) => {
      const signals: Signal[] = [];
      const stop = control.onSignal((signal) => signals.push(signal));
      return { signals, stop };
    };

    it('has nothing to cancel where no run is', async () => {
      const { store, control } = await backing().open();
      const { signals } = listen(control);
      expect(await control.cancel('acct:none')).toBeUndefined();
      await store.append(inbound('acct:a', 'm1'));
      expect(await control.cancel('acct:a')).toBeUndefined();
      const { lease, snapshot } = await claimed(store, 'acct:a', 'r1');
      expect(snapshot.cancelled).toBe(false);
      await store.commit(lease, merge());
      expect(await control.cancel('acct:a')).toBeUndefined();
      expect(signals).toEqual([]);
    });

    it('signals a cancel to every process, with its run', async () => {
      const a = await backing().open();
      const b = await backing().open();
      const heard = [listen(a.control), listen(b.control)];
      await a.store.append(inbound('acct:a', 'm1'));
      await claimed(a.store, 'acct:a', 'r1');
      expect(await b.control.cancel('acct:a')).toBe('r1');
      for (const { signals } of heard)
        await vi.waitFor(() =>
          expect(signals).toContainEqual({ type: 'cancel', conversation: 'acct:a', run: 'r1' }),
        );
    });

    it('signals a reset as a cancel of its run', async () => {
      const a = await backing().open();
      const b = await backing().open();
      const { signals } = listen(a.control);
      await a.store.append(inbound('acct:a', 'm1'));
      await claimed(a.store, 'acct:a', 'r1');
      await b.store.reset('acct:a');
      await vi.waitFor(() =>
        expect(signals).toContainEqual({ type: 'cancel', conversation: 'acct:a', run: 'r1' }),
      );
    });

    it('signals an arrival while a run holds the lease; not before, not after, not a duplicate', async () => {
      const a = await backing().open();
      const b = await backing().open();
      const { signals } = listen(a.control);
      await b.store.append(inbound('acct:a', 'm1'));
      const { lease } = await claimed(a.store, 'acct:a', 'r1');
      await b.store.append(inbound('acct:a', 'm1'));
      await b.store.append(inbound('acct:b', 'm1'));
      await b.store.append(inbound('acct:a', 'm2'));
      await vi.waitFor(() => expect(signals).toHaveLength(1));
      expect(signals[0]).toMatchObject({ type: 'arrived', conversation: 'acct:a' });
      await a.store.release(lease);
      await b.store.append(inbound('acct:a', 'm3'));
      const again = await claimed(a.store, 'acct:a', 'r1');
      await a.store.commit(again.lease, merge());
      await b.store.append(inbound('acct:a', 'm4'));
      // A later signal shows that nothing else was on its way.
      await claimed(a.store, 'acct:b', 'r2');
      await b.store.append(inbound('acct:b', 'm2'));
      await vi.waitFor(() => expect(signals.at(-1)).toMatchObject({ conversation: 'acct:b' }));
      expect(signals).toHaveLength(2);
    });

    it('stops when unsubscribed, and one bad handler does not keep others from hearing', async () => {
      const { store, control } = await backing().open();
      const gone = listen(control);
      const stopBad = control.onSignal(() => {
        throw new Error('handler is broken');
      });
      const { signals } = listen(control);
      gone.stop();
      gone.stop();
      await store.append(inbound('acct:a', 'm1'));
      await claimed(store, 'acct:a', 'r1');
      await control.cancel('acct:a');
      await vi.waitFor(() => expect(signals).toHaveLength(1));
      expect(gone.signals).toEqual([]);
      stopBad();
    });
  });
}
