// docs/threat-model.md: each line names a test that is there, or says that nothing tests it.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const text = readFileSync(join(ROOT, 'docs/threat-model.md'), 'utf8');
const sections = new Map(
  text.split(/^## /mu).map((section) => [section.split('\n', 1)[0] ?? '', section] as const),
);

test.each(['From the network', 'From a chat', 'From inside', 'Which parser is fuzzed where'])(
  '%s',
  (name) => {
    const rows = (sections.get(name) ?? '')
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(1);
    expect(rows.length).toBeGreaterThan(5);
    for (const row of rows) expect(row).toMatch(/`test\/|nothing tests|see the table below/u);
  },
);

test('every file that it names is there', () => {
  const files = [...text.matchAll(/`((?:test|src|channels|config)\/[^`\s]+)`/gu)].map(
    ([, file = '']) => file,
  );
  expect(files.length).toBeGreaterThan(30);
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});
