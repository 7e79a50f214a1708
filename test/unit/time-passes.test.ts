// Passes come round until they are stopped, whatever becomes of one of them.
import { setTimeout as sleep } from 'node:timers/promises';
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
    intervalMs: 1,
  });
  passes.start();
  const stopping = passes.stop().then(() => (stopped = true));
  await sleep(5);
  expect([signal?.aborted, stopped]).toEqual([true, false]);
  release();
  await stopping;
  await passes.stop();
  await sleep(20);
  expect(begun).toBe(1);
});

test('processes that start together drift apart', async () => {
  // Unlike any other timer of this process.
  const intervalMs = 1_000_003;
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const many = Array.from({ length: 20 }, () =>
    createPasses({
      pass: () => Promise.resolve(),
      failed: (error) => expect.fail(String(error)),
      intervalMs,
    }),
  );
  try {
    for (const passes of many) passes.start();
    const delays = () =>
      timers.mock.calls.map(([, ms = 0]) => ms / intervalMs).filter((one) => one >= 0.75 && one < 1.25);
    await expect.poll(() => delays().length).toBe(20);
    expect(new Set(delays()).size).toBe(20);
  } finally {
    timers.mockRestore();
    await Promise.all(many.map((passes) => passes.stop()));
  }
});
