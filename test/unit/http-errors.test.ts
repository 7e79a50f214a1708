// The error catalogue and docs/errors.md say the same.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ERRORS } from '../../src/domain/errors.ts';

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
