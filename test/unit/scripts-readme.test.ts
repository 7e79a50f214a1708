// Both READMEs say the same, and what they name exists.
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ENVIRONMENT } from '../../config/layer.ts';
import { loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');
const english = read('README.md');
const chinese = read('README.zh-CN.md');
const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(read('package.json')));

/** Code without its comments, which are translated. */
const codeOf = (text: string) =>
  [...text.matchAll(/```(\w+)\n(.*?)```/gs)].map(
    ([, language, code]) => `${language}\n${code?.replaceAll(/ # .*$/gm, '')}`,
  );
const withoutCode = (text: string) => text.replaceAll(/```.*?```/gs, '');
const headingLevels = (text: string) => [...withoutCode(text).matchAll(/^#+(?= )/gm)].map(([level]) => level);
const inlineCode = (text: string) =>
  new Set([...withoutCode(text).matchAll(/`([^`]+)`/g)].map(([, code]) => code ?? ''));
const links = (text: string) => [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, target]) => target ?? '');
const addresses = (text: string) => [...text.matchAll(/<(http[^>]+)>/g)].map(([, target]) => target);
const rows = (text: string) =>
  withoutCode(text)
    .split('\n')
    .filter((line) => line.startsWith('|')).length;

describe('the READMEs', () => {
  it('have the same headings, code, tables and links', () => {
    expect(headingLevels(chinese)).toEqual(headingLevels(english));
    expect(codeOf(chinese)).toEqual(codeOf(english));
    expect(rows(chinese)).toBe(rows(english));
    expect(addresses(chinese)).toEqual(addresses(english));
    const others = (target: string) => !target.startsWith('README');
    expect(links(chinese).filter(others)).toEqual(links(english).filter(others));
  });

  it('name the same commands, files and variables', () => {
    expect([...inlineCode(chinese)].sort()).toEqual([...inlineCode(english)].sort());
  });

  it('have a place for the benchmark', () => {
    for (const text of [english, chinese])
      expect(text).toMatch(/<!-- bench:start -->\n[^]*<!-- bench:end -->/);
  });

  it('show every command, and only commands that exist', () => {
    const named = [...english.matchAll(/npm (?:run )?(start|test|[a-z:]+)/g)].map(([, name]) => name ?? '');
    expect([...new Set(named)].filter((name) => name in scripts).sort()).toEqual(
      ['bench', 'doctor', 'faults', 'start', 'test'].sort(),
    );
    for (const [, name] of english.matchAll(/`npm run ([a-z:]+)/g))
      expect(scripts).toHaveProperty([name ?? '']);
  });

  it('show a configuration that is accepted', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-readme-'));
    try {
      const env = { LANEKEEPER_CONFIG: 'readme.yaml', DEEPSEEK_API_KEY: 'k1', MY_PROGRAM_KEY: 'k2' };
      const configs: Config[] = [];
      for (const [, yaml = ''] of english.matchAll(/```yaml\n(.*?)```/gs)) {
        await writeFile(join(folder, 'readme.yaml'), yaml);
        configs.push(loadConfig({ env, cwd: folder }).config);
      }
      expect(configs.some(({ channels }) => channels['me']?.type === 'weixin')).toBe(true);
      const config = configs.find(({ agent }) => agent.max_steps === 30)!;
      expect(config.models[config.model]?.api_key).toBe('k1');
      expect(config.channels['webhook']).toMatchObject({ api_keys: ['k2'] });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('name every environment variable', () => {
    for (const name of [...Object.keys(ENVIRONMENT), 'LANEKEEPER_CONFIG'])
      expect(english).toContain(`\`${name}\``);
  });
});

describe('package.json', () => {
  it('has scripts that start programs that exist', () => {
    for (const command of Object.values(scripts)) {
      for (const [, file] of command.matchAll(/(?:^| )([\w/]+\.(?:mjs|ts))/g))
        expect(existsSync(join(ROOT, file ?? '')), file).toBe(true);
    }
  });

  it('pins every dependency exactly', () => {
    const schema = z.record(z.string(), z.string());
    const parts = z
      .object({ dependencies: schema, devDependencies: schema, optionalDependencies: schema })
      .parse(JSON.parse(read('package.json')));
    for (const [name, version] of Object.values(parts).flatMap((part) => Object.entries(part))) {
      expect(version, name).toMatch(/^\d+\.\d+\.\d+$/);
    }
  });

  it('has a lockfile that names no host but the public registry', () => {
    for (const [, host] of read('package-lock.json').matchAll(/"resolved": "https?:\/\/([^/]+)/g)) {
      expect(host).toBe('registry.npmjs.org');
    }
  });

  it('has a reason for every dependency in docs/decisions', () => {
    const reasons = read('docs/decisions/0003-dependencies.md');
    const { dependencies, devDependencies, optionalDependencies } = JSON.parse(read('package.json'));
    const names = Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies });
    for (const name of names) expect(reasons, name).toContain(`| \`${name}\` |`);
    const listed = [...reasons.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name ?? '');
    expect(listed.sort()).toEqual(names.sort());
  });
});
