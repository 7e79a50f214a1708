// Passes come round until they are stopped, whatever becomes of one of them.
import { expect, test, vi } from 'vitest';
import { createPasses } from '../../src/time/passes.ts';

test('the first pass begins at once, and another one follows, also after one that failed', async () => {
  const { promise: third, resolve } = Promise.withResolvers<void>();
  const errors: unknown[] = [];
  let begun = 0;
  const passes = createPasses({
    async pass() {
      begun++;
      if (begun === 1) throw new Error('no storage');
      if (begun === 3) resolve();
    },
    failed: (error) => errors.push(error),
    intervalMs: 1,
  });
  expect(begun).toBe(0);
  passes.start();
  expect(begun).toBe(1);
  await third;
  await passes.stop();
  expect(errors).toEqual([new Error('no storage')]);
});

test('stop ends the pass that is under way, waits for it, and no other comes', async () => {
  vi.useFakeTimers();
  try {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let begun = 0;
    let stopped = false;
    let signal: AbortSignal | undefined;
    const passes = createPasses({
      async pass(own) {
        begun++;
        signal = own;
        await released;
      },
      failed: (error) => expect.fail(String(error)),
      intervalMs: 1_000,
    });
    passes.start();
    const stopping = passes.stop().then(() => (stopped = true));
    await vi.advanceTimersByTimeAsync(0);
    expect([signal?.aborted, stopped]).toEqual([true, false]);
    release();
    await stopping;
    await passes.stop();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(begun).toBe(1);
  } finally {
    vi.useRealTimers();
  }
});

test('processes that start together drift apart', async () => {
  vi.useFakeTimers();
  try {
    const spread = vi.spyOn(Math, 'random').mockReturnValueOnce(0).mockReturnValueOnce(1);
    const at: number[] = [];
    const passes = createPasses({
      pass: async () => void at.push(Date.now()),
      failed: (error) => expect.fail(String(error)),
      intervalMs: 1_000,
    });
    const from = Date.now();
    passes.start();
    await vi.advanceTimersByTimeAsync(2_000);
    await passes.stop();
    spread.mockRestore();
    expect(at.map((time) => time - from)).toEqual([0, 750, 2_000]);
  } finally {
    vi.useRealTimers();
  }
});
