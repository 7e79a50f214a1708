// What documentation and comments name is there: files, links with their anchors, settings, commands, metrics.
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';

const ROOT = join(import.meta.dirname, '..', '..');
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');
const exists = (path: string) => existsSync(join(ROOT, path));
const PLACES = ['src', 'channels', 'config', 'scripts', 'bench', 'test', 'docs'];
const find = (pattern: string) =>
  globSync(pattern, { cwd: ROOT, exclude: ['**/node_modules', '**/vendor', 'data'] });
const pages = find('{*.md,docs/**/*.md,channels/*/README.md}');
const sources = find(`{${PLACES.join()}}/**/*.{ts,mjs,js,lua,sql,yaml}`);

/** Files that the reader, or a command, is to make. */
const MADE = /^config\/local\.yaml$|^bench\/results$|^channels\/board\/|^test\/unit\/x\.test\.ts$/;
/** A delivery's field; a setting that 0007 took away. */
const NO_SETTINGS = new Set(['delivery.id', 'tools.admins']);
const PATH = new RegExp(`(?<![\\w./-])(?:${PLACES.join('|')})/[\\w./-]*\\w`, 'g');
const pathsIn = (text: string) =>
  [...text.matchAll(PATH)].map(([path]) => path).filter((path) => !MADE.test(path));
const inlineCode = (text: string) =>
  [...text.replaceAll(/```.*?```/gs, '').matchAll(/`([^`\n]+)`/g)].map(([, code]) => code ?? '');
/** As GitHub makes it of a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
const anchors = (text: string) => [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading!));

const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(read('package.json')));

const settings: unknown = parse(read('config/default.yaml'));
/** `models.<name>.x` is one of any entry. Pages about channels leave out the `channels.<name>`. */
function isSetting(name: string): boolean {
  const follow = (from: unknown, [key, ...rest]: string[]): boolean => {
    if (key === undefined) return true;
    if (typeof from !== 'object' || from === null) return false;
    if (key === '<name>') return Object.values(from).some((entry) => follow(entry, rest));
    return Object.hasOwn(from, key) && follow((from as Record<string, unknown>)[key], rest);
  };
  const keys = name.split('.');
  return follow(settings, keys) || follow(settings, ['channels', '<name>', ...keys]);
}
const SETTING = new RegExp(
  `^(?:${Object.keys(settings as object).join('|')})(?:\\.(?:[a-z][a-z_]*|<name>))+$`,
);

describe.each(pages)('%s', (page) => {
  const text = read(page);

  it('links to what is there', () => {
    const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
    for (const target of targets.filter((one) => !/^https?:/.test(one))) {
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? page : join(dirname(page), path);
      expect(exists(file), target).toBe(true);
      if (anchor !== undefined) expect(anchors(read(file)), target).toContain(anchor);
    }
  });

  it('names files, settings and commands that are there', () => {
    const wrong = pathsIn(inlineCode(text).join('\n')).filter((path) => !exists(path));
    expect(wrong).toEqual([]);
    const names = inlineCode(text).filter((code) => SETTING.test(code) && !NO_SETTINGS.has(code));
    expect(names.filter((name) => !isSetting(name))).toEqual([]);
    const commands = [...text.matchAll(/npm run ([a-z][a-z:]*)/g)].map(([, name]) => name!);
    expect(commands.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
    const metrics = [...text.matchAll(/\blanekeeper_([a-z_]+)/g)].map(([, name]) => name!);
    expect(metrics.filter((name) => !read('src/telemetry/metrics.ts').includes(name))).toEqual([]);
  });
});

it('CONTRIBUTING.md says what is in each folder of src', () => {
  const map = read('CONTRIBUTING.md');
  const folders = readdirSync(join(ROOT, 'src'), { withFileTypes: true }).filter((one) => one.isDirectory());
  expect(folders.map(({ name }) => name).filter((name) => !map.includes(`\`src/${name}\``))).toEqual([]);
});

it('comments name files that are there', () => {
  const wrong: string[] = [];
  for (const file of sources) {
    const comments = read(file).matchAll(/^.*?(?:\/\/|\/\*|^\s*\*|#|--)(.*)$/gm);
    for (const [, comment = ''] of comments)
      wrong.push(
        ...pathsIn(comment)
          .filter((path) => !exists(path))
          .map((path) => `${file}: ${path}`),
      );
  }
  expect(wrong).toEqual([]);
});
