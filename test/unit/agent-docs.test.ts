// docs/agent-loop.md names files, settings and tests: each must be there, and each setting of the loop must be in it.
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { settingsOf } from '../fakes/agent.ts';

const root = new URL('../../', import.meta.url);
const text = readFileSync(new URL('docs/agent-loop.md', root), 'utf8');
const exists = (path: string) => existsSync(new URL(path, root));

/** Rows of the tables that map a mechanism to its file, setting and test. */
const rows = text
  .split('\n')
  .filter((line) => line.startsWith('|'))
  .map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
  .filter((cells) => cells.length === 4 && /\b(?:agent|models|config|lane)-[a-z]+|suites/u.test(cells[3]!));

/** By its full name; or, for the second of a pair, without its group. */
function hasSetting(name: string): boolean {
  const settings = settingsOf();
  const [group = '', key] = name.split('.');
  if (key === undefined) return [settings, settings.breakers].some((place) => Object.hasOwn(place, group));
  return Object.hasOwn(settings[group as 'breakers' | 'context' | 'retry'], key);
}

const names = (cell: string) => [...cell.matchAll(/`([^`]+)`/gu)].map((match) => match[1]!);

describe('docs/agent-loop.md', () => {
  it('maps some fifty mechanisms', () => {
    expect(rows.length).toBeGreaterThan(40);
  });

  it.each(rows)('%s', (_name, files = '', settings = '', tests = '') => {
    for (const file of names(files).filter((name) => name.includes('.ts') || name.startsWith('src/'))) {
      expect([file, exists(file.startsWith('src/') ? file : `src/agent/${file}`)]).toEqual([file, true]);
    }
    for (const setting of names(settings).filter(
      (name) => /^[a-z_]+(?:\.[a-z_]+)?$/u.test(name) && name.includes('_'),
    )) {
      expect([setting, hasSetting(setting)]).toEqual([setting, true]);
    }
    for (const test of tests.match(/\b[a-z]+-[a-z]+\b/gu) ?? []) {
      if (!/^(?:agent|models|config|lane)-/u.test(test)) continue;
      expect([test, exists(`test/unit/${test}.test.ts`)]).toEqual([test, true]);
    }
  });

  it('mentions every setting of the loop', () => {
    // Limits of the lane's, not of the loop's.
    const elsewhere = new Set(['debounce_ms', 'max_batch', 'retry', 'breakers', 'context']);
    for (const name of Object.keys(settingsOf())) {
      if (!elsewhere.has(name)) expect(text).toContain(`\`${name}\``);
    }
  });
});
