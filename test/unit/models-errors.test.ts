// What vendors' errors become: recorded wordings in, a kind out; and nothing secret in the message.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { classify, failureOf, failureOfBody } from '../../src/models/errors.ts';
import { isOverflow } from '../../src/models/overflow.ts';
import { redact } from '../../src/models/redact.ts';
import { retryAfter } from '../../src/models/retry-after.ts';

const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../fixtures/llm/${name}.json`, import.meta.url), 'utf8'));

describe('overflow', () => {
  const { overflow, other } = fixture('overflow-messages') as { overflow: string[]; other: string[] };
  it.each(overflow)('is: %s', (message) => {
    expect(isOverflow(message)).toBe(true);
    expect(classify({ status: 400, code: '', message })).toMatchObject({
      kind: 'overflow',
      retryable: false,
    });
  });
  it.each(other)('is not: %s', (message) => {
    expect(isOverflow(message)).toBe(false);
  });
});

interface ErrorCase {
  who: string;
  status: number | null;
  code?: string;
  message: string;
  kind: string;
}

describe('kinds', () => {
  const { cases } = fixture('errors') as { cases: ErrorCase[] };
  it.each(cases.map((shape) => [shape.kind, shape.who, shape.message, shape] as const))(
    '%s: %s: %s',
    (kind, _, __, { status, code = '', message }) => {
      const error = classify({ code, message, ...(status !== null && { status }) });
      expect(error.kind).toBe(kind);
      expect(error.retryable).toBe(['rate_limit', 'overloaded', 'network'].includes(kind));
    },
  );
});

describe('bodies', () => {
  it.each<[string, unknown, { message: string; code: string }]>([
    ['OpenAI', { error: { message: 'm', type: 't', code: 'c' } }, { message: 'm', code: 'c t' }],
    ['Anthropic', { type: 'error', error: { type: 't', message: 'm' } }, { message: 'm', code: 't' }],
    [
      'vLLM, old',
      { object: 'error', message: 'm', type: 'BadRequestError', code: 400 },
      { message: 'm', code: '400 BadRequestError' },
    ],
    ['FastAPI', { detail: 'm' }, { message: 'm', code: '' }],
    ['FastAPI, a list', { detail: [{ msg: 'm', type: 't' }] }, { message: 'm', code: 't' }],
    ['GLM', { error: { code: '1113', message: 'm' } }, { message: 'm', code: '1113' }],
    ['MiniMax', { base_resp: { status_code: 1004, status_msg: 'm' } }, { message: 'm', code: '1004' }],
    [
      'Gemini',
      [{ error: { code: 400, message: 'm', status: 'INVALID_ARGUMENT' } }],
      { message: 'm', code: '400 INVALID_ARGUMENT' },
    ],
    ['a string', { error: 'm' }, { message: 'm', code: '' }],
    [
      'DashScope',
      { code: 'InvalidParameter', message: 'm', request_id: 'r' },
      { message: 'm', code: 'InvalidParameter' },
    ],
  ])('%s', (_, body, expected) => {
    expect(failureOfBody(body)).toMatchObject(expected);
  });

  it('says what lies behind "fetch failed"', () => {
    const error = new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED 127.0.0.1:1') });
    expect(classify(failureOf(error))).toMatchObject({
      kind: 'network',
      message: 'fetch failed: connect ECONNREFUSED 127.0.0.1:1',
    });
  });
});

describe('when to come back', () => {
  it.each<[string, number | undefined]>([
    ['Rate limit reached. Please try again in 20s.', 20_000],
    ['Rate limit reached. Please try again in 1m2.5s.', 62_500],
    ['Rate limit reached. Please try again in 350ms.', 350],
    ['Please retry in 12.3s', 12_300],
    ['rate limit, retry after 5 seconds', 5_000],
    ['Please wait and retry after 2 minutes.', 120_000],
    ['rate limit', undefined],
  ])('%s', (message, retryAfterMs) => {
    expect(classify({ status: 429, code: '', message }).retryAfterMs).toBe(retryAfterMs);
  });

  const now = Date.parse('2026-11-30T12:00:00Z');
  it.each<[Record<string, string>, number | undefined]>([
    [{ 'retry-after': '7' }, 7_000],
    [{ 'retry-after': '1.5' }, 1_500],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': 'Mon, 30 Nov 2026 12:00:20 GMT' }, 20_000],
    [{ 'retry-after': 'Mon, 30 Nov 2026 11:00:00 GMT' }, 0],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after-ms': '250', 'retry-after': '1' }, 250],
    [{ 'retry-after-ms': '', 'retry-after': '1' }, 1_000],
    [{ 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1m2.5s' }, 62_500],
    [
      {
        'x-ratelimit-remaining-requests': '9',
        'x-ratelimit-reset-requests': '6h',
        'x-ratelimit-remaining-tokens': '0',
        'x-ratelimit-reset-tokens': '350ms',
      },
      350,
    ],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now + 9_000) }, 9_000],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now / 1_000 + 9) }, 9_000],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '9' }, 9_000],
    [{ 'x-ratelimit-remaining': '3', 'x-ratelimit-reset': '9' }, undefined],
  ])('%o', (headers, retryAfterMs) => {
    expect(retryAfter({ headers: new Headers(headers), message: 'slow down' }, now)).toBe(retryAfterMs);
  });
});

describe('redaction', () => {
  const key = 'sk-proj-abcdefghijklmnop';
  it.each([
    `Incorrect API key provided: ${key}`,
    'Incorrect API key provided: sk-proj-ab**********mnop.',
    `https://user:${key}@host/v1?key=${key}`,
    `{"authorization":"Bearer ${key}"}`,
    `x-api-key: ${key}`,
    'Bearer abcdefghijklmnop',
    'AIzaSyabcdefghijklmnopabcdefghijklmnop',
  ])('%s', (text) => {
    const safe = redact(text, [key]);
    expect(safe).not.toMatch(/mnop/);
    expect(safe).not.toBe('');
  });

  it('takes a key of any form out, whole and masked', () => {
    const odd = 'Passwort-für-alles-9';
    expect(redact(`key ${odd} is wrong`, [odd])).toBe('key *** is wrong');
    expect(redact('key Pas***-9 is wrong', [odd])).toBe('key *** is wrong');
  });

  it('keeps a message short and on one line', () => {
    expect(redact(`a\nb\r\n${'x'.repeat(1_000)}`)).toHaveLength(500);
    expect(redact('a\nb')).toBe('a b');
  });

  it('leaves ordinary words alone', () => {
    const text = 'This model supports at most 16384 completion tokens, see https://example.com/docs';
    expect(redact(text)).toBe(text);
  });
});
