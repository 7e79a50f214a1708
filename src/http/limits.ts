// Rate limits: a token bucket per key, in this process. One account's flood is stopped before it costs storage.
import { AppError } from '../domain/errors.ts';

export interface RateLimiter {
  /** Throws AppError rate_limited, with the time after which one more is let through. */
  take(key: string): void;
}

export interface RateLimiterOptions {
  perMinute: (key: string) => number;
  now: () => number;
}

/** More keys than this, and full buckets are forgotten: a full bucket is like one that was never used. */
const MAX_KEYS = 10_000;

export function createRateLimiter({ perMinute, now }: RateLimiterOptions): RateLimiter {
  const buckets = new Map<string, { tokens: number; at: number }>();

  const level = (key: string, bucket: { tokens: number; at: number }): number => {
    const capacity = perMinute(key);
    return Math.min(capacity, bucket.tokens + ((now() - bucket.at) / 60_000) * capacity);
  };

  function prune(): void {
    for (const [key, bucket] of buckets) if (level(key, bucket) >= perMinute(key)) buckets.delete(key);
  }

  return {
    take(key) {
      const capacity = perMinute(key);
      const bucket = buckets.get(key);
      // A clock that was set back must not lock anybody out for as long as it was ahead.
      if (bucket && now() < bucket.at) bucket.at = now();
      const tokens = bucket ? level(key, bucket) : capacity;
      if (tokens < 1) {
        const detail = `More than ${capacity} requests a minute.`;
        const retryAfterMs = ((1 - tokens) / capacity) * 60_000;
        throw new AppError('rate_limited', detail, { retryAfterMs });
      }
      if (!bucket && buckets.size >= MAX_KEYS) prune();
      buckets.set(key, { tokens: tokens - 1, at: now() });
    },
  };
}
