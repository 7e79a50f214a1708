// The linter catches what the architecture forbids: each mistake is written into a copy of the layout and reported.
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..', '..');
let copy: string;

/** file → its text → the rule that must speak up; undefined: allowed, and must stay silent. */
const CASES: [file: string, text: string, rule: string | undefined][] = [
  ['src/domain/a.ts', `import '../ports/store.ts';`, 'no-restricted-imports'],
  ['src/ports/a.ts', `import '../agent/loop.ts';`, 'no-restricted-imports'],
  ['src/agent/a.ts', `import '../models/openai.ts';`, 'no-restricted-imports'],
  ['src/agent/b.ts', `import '../storage/redis/index.ts';`, 'no-restricted-imports'],
  ['src/agent/c.ts', `import '../compose.ts';`, 'no-restricted-imports'],
  [
    'src/agent/d.ts',
    `import '../ports/store.ts';\nimport '../domain/errors.ts';\nimport './loop.ts';`,
    undefined,
  ],
  ['src/inbox/a.ts', `import '../lane/lane.ts';`, 'no-restricted-imports'],
  ['src/lane/a.ts', `import '../http/app.ts';`, 'no-restricted-imports'],
  ['src/lane/b.ts', `import '../agent/index.ts';`, undefined],
  ['src/storage/redis/a.ts', `import '../sqlite/index.ts';`, 'no-restricted-imports'],
  ['src/storage/redis/b.ts', `import '../../tools/index.ts';`, 'no-restricted-imports'],
  ['src/storage/redis/c.ts', `import '../../ports/store.ts';\nimport 'ioredis';`, undefined],
  ['channels/web/a.ts', `import '../webhook/index.ts';`, 'no-restricted-imports'],
  ['channels/web/b.ts', `import '../../src/inbox/accept.ts';`, 'no-restricted-imports'],
  ['channels/web/c.ts', `import '../../src/ports/channel.ts';\nimport '../shared/split.ts';`, undefined],
  ['channels/shared/a.ts', `import '../web/index.ts';`, 'no-restricted-imports'],
  ['channels/shared/b.ts', `import 'uqr';\nimport '../../src/ports/channel.ts';`, undefined],
  ['src/lane/c.ts', `import '../../test/fakes/x.ts';`, 'no-restricted-imports'],
  [
    'src/main.ts',
    `import './serve.ts';\nimport '../channels/index.ts';\nimport './lane/lane.ts';`,
    undefined,
  ],
  [
    'src/doctor/a.ts',
    `import '../../channels/index.ts';\nimport '../../config/load.ts';\nimport '../backend.ts';`,
    undefined,
  ],
  ['src/doctor/b.ts', `import '../../test/fakes/x.ts';`, 'no-restricted-imports'],
  ['src/lane/g.ts', `import '../doctor/index.ts';`, 'no-restricted-imports'],
  ['src/serve.ts', `import 'ioredis';`, 'no-restricted-imports'],
  ['src/tools/a.ts', `import 'ioredis';`, 'no-restricted-imports'],
  ['src/models/anthropic/a.ts', `import 'openai/resources';`, 'no-restricted-imports'],
  ['src/models/openai/a.ts', `import 'openai/resources';`, undefined],
  ['channels/web/d.ts', `import '@fastify/static';`, 'no-restricted-imports'],
  ['src/http/a.ts', `import '@fastify/static';`, undefined],
  ['src/storage/redis/d.ts', `import 'node:sqlite';`, 'no-restricted-imports'],
  [
    'src/agent/e.ts',
    `import { configSchema } from '../../config/schema.ts';\nconfigSchema();`,
    'no-restricted-imports',
  ],
  [
    'src/agent/f.ts',
    `import type { Config } from '../../config/schema.ts';\nexport type A = Config;`,
    undefined,
  ],
  ['src/agent/g.ts', `import '../../config/load.ts';`, 'no-restricted-imports'],
  ['src/agent/h.ts', `export const key = process.env.SECRET;`, 'no-process-env'],
  [
    'src/agent/i.ts',
    `import { env } from 'node:process';\nexport const key = env.SECRET;`,
    'no-restricted-imports',
  ],
  ['config/load.ts', `export const key = process.env.SECRET;`, undefined],
  ['src/lane/d.ts', `export function f() {\n  Promise.resolve(1);\n}`, 'no-floating-promises'],
  [
    'src/lane/e.ts',
    `export const f = async () => {\n  if (Promise.resolve(true)) await 1;\n};`,
    'no-misused-promises',
  ],
  ['src/lane/f.ts', `export const f = (x: any) => x;`, 'no-explicit-any'],
  ['src/net/a.ts', `import './b.ts';\nexport const a = 1;`, 'no-cycle'],
  ['src/net/b.ts', `import './a.ts';\nexport const b = 1;`, 'no-cycle'],
  ['src/net/c.ts', `import type { D } from './d.ts';\nexport type C = D | 1;`, 'no-cycle'],
  ['src/net/d.ts', `import type { C } from './c.ts';\nexport type D = C | 2;`, 'no-cycle'],
];

interface Diagnostic {
  code: string;
  filename: string;
}

let diagnostics: Diagnostic[];

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), 'lanekeeper-lint-'));
  for (const file of ['oxlint.config.ts', 'tsconfig.json'])
    await copyFile(join(ROOT, file), join(copy, file));
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  for (const [file, text] of CASES) {
    await mkdir(dirname(join(copy, file)), { recursive: true });
    await writeFile(join(copy, file), `${text}\n`);
  }
  const oxlint = join(ROOT, 'node_modules', 'oxlint', 'bin', 'oxlint');
  const output = await new Promise<string>((resolve) => {
    execFile(
      process.execPath,
      [oxlint, '--type-aware', '-f', 'json', '.'],
      { cwd: copy, maxBuffer: 1 << 24 },
      (_error, stdout) => resolve(stdout),
    );
  });
  const parsed: { diagnostics: Diagnostic[] } = JSON.parse(output);
  diagnostics = parsed.diagnostics;
});

afterAll(() => rm(copy, { recursive: true, force: true }));

describe('the linter', () => {
  it.each(CASES)('%s with %j: %s', (file, _text, rule) => {
    const codes = diagnostics.filter((found) => found.filename === file).map(({ code }) => code);
    // Whatever else such a tiny file draws is of no interest here.
    const relevant = codes.filter((code) =>
      /restricted-imports|process-env|promises|explicit-any|cycle/.test(code),
    );
    if (rule) expect(relevant.join()).toContain(rule);
    else expect(relevant).toEqual([]);
  });

  it('knows every folder of the source tree', async () => {
    const text = await readFile(join(ROOT, 'oxlint.config.ts'), 'utf8');
    const folders = await foldersOf('src', 'src/storage', 'channels');
    for (const folder of folders) expect(text, folder).toContain(folder);
  });
});

async function foldersOf(...parents: string[]): Promise<string[]> {
  const found = await Promise.all(
    parents.map(async (parent) => {
      const entries = await readdir(join(ROOT, parent), { withFileTypes: true });
      return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
    }),
  );
  return found.flat();
}
