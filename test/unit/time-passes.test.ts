// Passes come round until they are stopped, whatever becomes of one of them.
import { expect, test, vi } from 'vitest';
import { createPasses } from '../../src/time/passes.ts';
import { settled } from '../fakes/agent.ts';

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

/** Of timers set for about this long, in parts of it: unlike any other timer of this process. */
const INTERVAL_MS = 1_000_003;
function watchTimers() {
  const timers = vi.spyOn(globalThis, 'setTimeout');
  return {
    delays: () =>
      timers.mock.calls.map(([, ms = 0]) => ms / INTERVAL_MS).filter((one) => one >= 0.75 && one < 1.25),
    restore: () => timers.mockRestore(),
  };
}

test('stop ends the pass that is under way, waits for it, and no other comes', async () => {
  const timers = watchTimers();
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
    intervalMs: INTERVAL_MS,
  });
  try {
    passes.start();
    const stopping = passes.stop().then(() => (stopped = true));
    await settled();
    expect([signal?.aborted, stopped]).toEqual([true, false]);
    release();
    await stopping;
    await passes.stop();
    await settled();
    expect(begun).toBe(1);
    expect(timers.delays()).toEqual([]);
  } finally {
    timers.restore();
  }
});

test('processes that start together drift apart', async () => {
  const timers = watchTimers();
  const many = Array.from({ length: 20 }, () =>
    createPasses({
      pass: () => Promise.resolve(),
      failed: (error) => expect.fail(String(error)),
      intervalMs: INTERVAL_MS,
    }),
  );
  try {
    for (const passes of many) passes.start();
    await expect.poll(() => timers.delays().length).toBe(20);
    expect(new Set(timers.delays()).size).toBe(20);
  } finally {
    timers.restore();
    await Promise.all(many.map((passes) => passes.stop()));
  }
});
