// Model layer: when a vendor wants to be asked again, in milliseconds: what its headers say (RFC 9110, 10.2.3, and the
// rate-limit headers of OpenAI, Groq and OpenRouter), else its words.

type Source = { headers?: Pick<Headers, 'get'>; message: string };

/** Undefined: it says nothing. */
export function retryAfter({ headers, message }: Source, now = Date.now()): number | undefined {
  if (headers) {
    const get = (name: string): string => headers.get(name)?.trim() ?? '';
    const ms = get('retry-after-ms');
    if (ms !== '' && Number(ms) >= 0) return Number(ms);
    const said = fromRetryAfter(get('retry-after'), now) ?? fromLimits(get, now);
    if (said !== undefined) return said;
  }
  const words =
    /(?:try again|retry)(?: again)? (?:in|after) ((?:[\d.]+\s*(?:ms|[hms](?:[a-z]+)?)\s*)+)/i.exec(message);
  return words?.[1] === undefined ? undefined : duration(words[1]);
}

/** Seconds, fractions too, or a date. */
function fromRetryAfter(value: string, now: number): number | undefined {
  if (value === '') return undefined;
  if (Number(value) >= 0) return Number(value) * 1_000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** The limits that are used up; the last to come back counts. */
function fromLimits(get: (name: string) => string, now: number): number | undefined {
  const waits = ['requests', 'tokens']
    .filter((kind) => get(`x-ratelimit-remaining-${kind}`) === '0')
    .map((kind) => duration(get(`x-ratelimit-reset-${kind}`)) ?? 0);
  if (get('x-ratelimit-remaining') === '0') waits.push(fromReset(Number(get('x-ratelimit-reset')), now));
  return waits.length === 0 ? undefined : Math.max(...waits);
}

/** Milliseconds or seconds since the epoch, or seconds from now. */
function fromReset(value: number, now: number): number {
  if (!(value > 0)) return 0;
  if (value < 1e9) return value * 1_000;
  return Math.max(0, (value < 1e11 ? value * 1_000 : value) - now);
}

const UNIT_MS: Record<string, number> = { ms: 1, h: 3_600_000, m: 60_000, s: 1_000 };

/** "1m2.5s", "350ms", "5 seconds" */
function duration(text: string): number | undefined {
  const parts = [...text.matchAll(/([\d.]+)\s*(ms|[hms])/gi)];
  if (parts.length === 0) return undefined;
  return Math.ceil(
    parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNIT_MS[unit!.toLowerCase()] ?? 0), 0),
  );
}
