// The delivery lane's back-off: exponential, jittered in its upper half, capped.
import { expect, test } from 'vitest';
import { backOffMs } from '../../src/delivery/deliver.ts';

const settings = { base_ms: 1_000, max_ms: 60_000 };

test.each([
  { attempt: 1, low: 500, high: 1_000 },
  { attempt: 2, low: 1_000, high: 2_000 },
  { attempt: 5, low: 8_000, high: 16_000 },
  { attempt: 20, low: 30_000, high: 60_000 },
])('attempt $attempt waits $low to $high ms', ({ attempt, low, high }) => {
  expect(backOffMs(attempt, settings, 0)).toBe(low);
  expect(backOffMs(attempt, settings, 1)).toBe(high);
});
