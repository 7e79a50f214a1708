// The rate limiter against clocks that jump.
import { expect, test } from 'vitest';
import { AppError } from '../../src/domain/errors.ts';
import { createRateLimiter } from '../../src/http/limits.ts';

test('a clock that was ahead and is set back locks nobody out', () => {
  let at = 1_000_000;
  const limiter = createRateLimiter({ perMinute: () => 60, now: () => at });
  at += 3_600_000;
  for (let n = 0; n < 60; n++) limiter.take('a');
  expect(() => limiter.take('a')).toThrow(AppError);
  at -= 3_600_000;
  expect(() => limiter.take('a')).toThrow(AppError);
  // One a second, from then on.
  at += 1_000;
  limiter.take('a');
  expect(() => limiter.take('a')).toThrow(AppError);
});
