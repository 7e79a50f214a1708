// Contract of LaneQueue. Run on both queues of a storage: `lanes` and `deliveries`.
import { describe, expect, it, vi } from 'vitest';
import type { LaneHandler, LaneOutcome, LaneQueue } from '../../../src/ports/lanes.ts';
import { ODD_NAMES, useBacking } from './support.ts';
import type { MakeBacking } from './support.ts';

const PATIENCE = { timeout: 20_000, interval: 10 };

/** A handler that a test holds in its hands: it shows what runs, and ends a call when told to. */
function manual() {
  const calls: { conversation: string; signal: AbortSignal; end: (outcome: LaneOutcome) => void }[] = [];
  const active = new Map<string, number>();
  let most = 0;
  let overlaps = 0;
  const handler: LaneHandler = async (conversation, signal) => {
    const running = (active.get(conversation) ?? 0) + 1;
    active.set(conversation, running);
    if (running > 1) overlaps += 1;
    most = Math.max(
      most,
      [...active.values()].reduce((sum, n) => sum + n, 0),
    );
    const { promise, resolve } = Promise.withResolvers<LaneOutcome>();
    calls.push({ conversation, signal, end: resolve });
    try {
      return await promise;
    } finally {
      active.set(conversation, (active.get(conversation) ?? 1) - 1);
    }
  };
  const call = (n: number) =>
    vi.waitFor(() => {
      const found = calls[n];
      if (found === undefined) throw new Error(`call ${n} has not come`);
      return found;
    }, PATIENCE);
  return { handler, calls, call, most: () => most, overlaps: () => overlaps };
}

export function lanesContract(name: string, make: MakeBacking): void {
  describe.each(['lanes', 'deliveries'] as const)(`${name}: %s`, (which) => {
    const backing = useBacking(make);
    const open = async (): Promise<LaneQueue> => (await backing().open())[which];

    it('wakes a conversation, from any process, also before anybody works', async () => {
      const [a, b] = [await open(), await open()];
      await a.wake('acct:early');
      const { handler, call, calls } = manual();
      await a.work(handler, { concurrency: 5 });
      (await call(0)).end('idle');
      await b.wake('acct:late');
      (await call(1)).end('idle');
      expect(calls.map((one) => one.conversation)).toEqual(['acct:early', 'acct:late']);
    });

    it('merges wakes that nobody has got to yet', async () => {
      const queue = await open();
      for (let n = 0; n < 20; n += 1) await queue.wake('acct:a');
      expect((await queue.depth()).waiting).toBe(1);
      const { handler, call, calls } = manual();
      await queue.work(handler, { concurrency: 5 });
      (await call(0)).end('idle');
      await queue.wake('acct:b');
      (await call(1)).end('idle');
      expect(calls.map((one) => one.conversation)).toEqual(['acct:a', 'acct:b']);
    });

    it('runs once more after a handler that was woken meanwhile, never beside it', async () => {
      const queue = await open();
      const { handler, call, calls, overlaps } = manual();
      await queue.work(handler, { concurrency: 5 });
      await queue.wake('acct:a');
      const first = await call(0);
      for (let n = 0; n < 5; n += 1) await queue.wake('acct:a');
      await queue.wake('acct:b');
      (await call(1)).end('idle');
      expect(calls.map((one) => one.conversation)).toEqual(['acct:a', 'acct:b']);
      first.end('idle');
      (await call(2)).end('idle');
      await vi.waitFor(async () => expect((await queue.depth()).active).toBe(0), PATIENCE);
      await queue.wake('acct:c');
      (await call(3)).end('idle');
      expect(calls.map((one) => one.conversation)).toEqual(['acct:a', 'acct:b', 'acct:a', 'acct:c']);
      expect(overlaps()).toBe(0);
    });

    it('keeps one handler a conversation while many are woken at random', async () => {
      const [a, b] = [await open(), await open()];
      const active = new Set<string>();
      const done = new Map<string, number>();
      let overlaps = 0;
      const handler: LaneHandler = async (conversation) => {
        if (active.has(conversation)) overlaps += 1;
        active.add(conversation);
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
        active.delete(conversation);
        done.set(conversation, (done.get(conversation) ?? 0) + 1);
        return 'idle';
      };
      await a.work(handler, { concurrency: 10 });
      if (a !== b) await b.work(handler, { concurrency: 10 });
      const names = Array.from({ length: 20 }, (_, n) => `acct:${n}`);
      for (let round = 0; round < 10; round += 1)
        await Promise.all(names.map((conversation, n) => (n % 2 ? a : b).wake(conversation)));
      await vi.waitFor(async () => {
        const depth = await a.depth();
        expect(depth.waiting + depth.active + depth.delayed).toBe(0);
        expect(done.size).toBe(20);
      }, PATIENCE);
      expect(overlaps).toBe(0);
    });

    it('works on as many at once as allowed, and no more', async () => {
      const queue = await open();
      const { handler, call, calls, most } = manual();
      await queue.work(handler, { concurrency: 3 });
      for (let n = 0; n < 8; n += 1) await queue.wake(`acct:${n}`);
      await call(2);
      expect(await queue.depth()).toMatchObject({ active: 3, waiting: 5 });
      for (let n = 0; n < 8; n += 1) (await call(n)).end('idle');
      expect(most()).toBe(3);
      expect(calls.map((one) => one.conversation)).toEqual(Array.from({ length: 8 }, (_, n) => `acct:${n}`));
    });

    it('"more" comes again, after the others that wait', async () => {
      const queue = await open();
      const { handler, call, calls } = manual();
      await queue.work(handler, { concurrency: 1 });
      await queue.wake('acct:a');
      const first = await call(0);
      await queue.wake('acct:b');
      first.end('more');
      (await call(1)).end('idle');
      (await call(2)).end('idle');
      expect(calls.map((one) => one.conversation)).toEqual(['acct:a', 'acct:b', 'acct:a']);
    });

    it('"retryInMs" comes again then, and lets others pass', async () => {
      const queue = await open();
      const { handler, call, calls } = manual();
      await queue.work(handler, { concurrency: 1 });
      await queue.wake('acct:a');
      const start = performance.now();
      (await call(0)).end({ retryInMs: 300 });
      await queue.wake('acct:b');
      (await call(1)).end('idle');
      (await call(2)).end('idle');
      expect(performance.now() - start).toBeGreaterThan(250);
      expect(calls.map((one) => one.conversation)).toEqual(['acct:a', 'acct:b', 'acct:a']);
    });

    it.each(['retryInMs', 'throws'])('comes again in time though the clock has jumped (%s)', async (how) => {
      const queue = await open();
      const { handler, call, calls } = manual();
      await queue.work(
        async (...args) => {
          const outcome = await handler(...args);
          if (outcome === 'more') throw new Error('broken on purpose');
          return outcome;
        },
        { concurrency: 1 },
      );
      await queue.wake('acct:a');
      const realNow = Date.now;
      const ahead = vi.spyOn(Date, 'now').mockImplementation(() => realNow() + 3_600_000);
      try {
        (await call(0)).end(how === 'throws' ? 'more' : { retryInMs: 300 });
        // Put off; or, by a worker whose clock is ahead, taken again at once.
        await vi.waitFor(async () => {
          expect(calls.length + (await queue.depth()).delayed).toBeGreaterThan(1);
        }, PATIENCE);
      } finally {
        ahead.mockRestore();
      }
      (await call(1)).end('idle');
    });

    it('shows what is delayed, and does not lose a wake to it', async () => {
      const queue = await open();
      const { handler, call } = manual();
      await queue.work(handler, { concurrency: 2 });
      await queue.wake('acct:a');
      (await call(0)).end({ retryInMs: 200 });
      await vi.waitFor(
        async () => expect(await queue.depth()).toEqual({ waiting: 0, active: 0, delayed: 1 }),
        PATIENCE,
      );
      await queue.wake('acct:a');
      (await call(1)).end('idle');
      await vi.waitFor(
        async () => expect(await queue.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 }),
        PATIENCE,
      );
    });

    it('keeps a wake that came while the handler was about to delay', async () => {
      const queue = await open();
      const { handler, call } = manual();
      await queue.work(handler, { concurrency: 2 });
      await queue.wake('acct:a');
      const first = await call(0);
      await queue.wake('acct:a');
      first.end({ retryInMs: 50 });
      (await call(1)).end('idle');
    });

    it('retries a handler that throws, after a back-off; others are not disturbed', async () => {
      const queue = await open();
      const times: number[] = [];
      const others: string[] = [];
      await queue.work(
        async (conversation) => {
          if (conversation !== 'acct:bad') {
            others.push(conversation);
            return 'idle';
          }
          times.push(performance.now());
          if (times.length < 3) throw new Error('broken on purpose');
          return 'idle';
        },
        { concurrency: 2 },
      );
      await queue.wake('acct:bad');
      for (let n = 0; n < 5; n += 1) await queue.wake(`acct:${n}`);
      await vi.waitFor(() => expect(times).toHaveLength(3), PATIENCE);
      await vi.waitFor(() => expect(others).toHaveLength(5), PATIENCE);
      const [first = 0, second = 0, third = 0] = times;
      expect(second - first).toBeGreaterThan(20);
      expect(third - second).toBeGreaterThan(20);
    });

    it('takes odd conversation ids', async () => {
      const queue = await open();
      const seen: string[] = [];
      await queue.work(
        async (conversation) => {
          seen.push(conversation);
          return 'idle';
        },
        { concurrency: 5 },
      );
      const names = ODD_NAMES.map((chat) => `acct:${chat}`);
      for (const conversation of names) await queue.wake(conversation);
      await vi.waitFor(() => expect([...seen].sort()).toEqual([...names].sort()), PATIENCE);
    });

    describe('close', () => {
      it('waits for handlers within the grace, and aborts nobody', async () => {
        const queue = await open();
        const { handler, call } = manual();
        await queue.work(handler, { concurrency: 2 });
        await queue.wake('acct:a');
        const running = await call(0);
        let closed = false;
        const closing = queue.close(30_000).then(() => {
          closed = true;
        });
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
        expect(closed).toBe(false);
        running.end('idle');
        await closing;
        expect(running.signal.aborted).toBe(false);
      });

      it('aborts with "drain" when the grace is over, waits, and starts nothing any more', async () => {
        const queue = await open();
        const { handler, call, calls } = manual();
        await queue.work(handler, { concurrency: 1 });
        await queue.wake('acct:a');
        await queue.wake('acct:b');
        const running = await call(0);
        const reason = new Promise((resolve) => {
          running.signal.addEventListener('abort', () => resolve(running.signal.reason));
        });
        let closed = false;
        const closing = Promise.all([queue.close(20), queue.close(20)]).then(() => {
          closed = true;
        });
        expect(await reason).toBe('drain');
        expect(closed).toBe(false);
        running.end('more');
        await closing;
        await queue.close(0);
        expect(calls).toHaveLength(1);
      });

      it('is quick where nobody works, or where something is delayed', async () => {
        const idle = await open();
        await idle.wake('acct:a');
        const { handler, call } = manual();
        await idle.work(handler, { concurrency: 1 });
        (await call(0)).end({ retryInMs: 60_000 });
        await vi.waitFor(async () => expect((await idle.depth()).delayed).toBe(1), PATIENCE);
        const start = performance.now();
        await idle.close(30_000);
        expect(performance.now() - start).toBeLessThan(10_000);
      });
    });
  });
}
