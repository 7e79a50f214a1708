// docs/writing-a-channel.md: its code is the code that the contract suite runs.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const FOLDER = join(ROOT, 'test/contract/channels/board');

test('the guide shows the adapter that the contract suite runs', async () => {
  const guide = await readFile(join(ROOT, 'docs/writing-a-channel.md'), 'utf8');
  const examples = [...guide.matchAll(/^```ts\n(.*?)^```/gmsu)].map(([, code]) => code);
  for (const [n, name] of ['parse.ts', 'index.ts'].entries()) {
    const code = await readFile(join(FOLDER, name), 'utf8');
    // In channels/ it lies less deep than here.
    expect(examples[n]).toBe(code.replaceAll("'../../../../src/", "'../../src/"));
  }
});

test('the guide names every promise that the suite holds a channel to', async () => {
  const guide = await readFile(join(ROOT, 'docs/writing-a-channel.md'), 'utf8');
  const suite = await readFile(join(ROOT, 'test/contract/suites/channel.ts'), 'utf8');
  const promises = [...suite.matchAll(/^ {4}it\('(.*?)', /gm)].map(([, name]) => name ?? '');
  expect(promises.length).toBeGreaterThan(10);
  for (const promise of promises) expect(guide).toContain(`- ${promise}`);
});
