// The error catalogue and docs/errors.md say the same; and what is not in it leaves without its words.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AppError, ERRORS } from '../../src/domain/errors.ts';
import { refusalOf } from '../../src/http/problem.ts';

test('docs/errors.md lists every error with its status, and no other', async () => {
  const text = await readFile(join(import.meta.dirname, '../../docs/errors.md'), 'utf8');
  const rows = [...text.matchAll(/^\| `(\w+)` \| (\d{3}) \| (.+?) \| (yes|no) \|/gm)];
  const documented = rows.map(([, code, status, title, retryable]) => ({ code, status, title, retryable }));
  const catalogue = Object.entries(ERRORS).map(([code, { status, title, retryable }]) => ({
    code,
    status: String(status),
    title,
    retryable: retryable ? 'yes' : 'no',
  }));
  expect(documented).toEqual(catalogue);
});

test.each([
  ['an error of nobody’s', new Error('sk-1')],
  ['one of a library, with a code', Object.assign(new Error('sk-1'), { code: 'ECONNREFUSED' })],
  ['one of the framework', Object.assign(new Error('sk-1'), { code: 'FST_ERR_X', statusCode: 500 })],
  ['one of the configuration', new AppError('config_invalid', 'sk-1')],
  ['no error at all', 'sk-1'],
])('%s is told without its words', (_name, error) => {
  expect(refusalOf(error)).toEqual({ code: 'internal', detail: expect.not.stringContaining('sk-1') });
});

test('a cause is never told', () => {
  const error = new AppError('storage_unavailable', 'The storage is away.', { cause: new Error('sk-1') });
  expect(JSON.stringify(refusalOf(error))).not.toContain('sk-1');
});
