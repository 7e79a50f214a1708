// `npm start` on a machine that has only a Node and an npm: what it installs, when, on which Node the server then runs,
// and that arguments, signals and the exit code pass through. npm itself is a stand-in here that records its call.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..', '..');
const BIN = join(ROOT, 'node_modules', '.bin');

let root: string;
const children: ChildProcess[] = [];

const LOCK = {
  packages: {
    '': { name: 'x' },
    'node_modules/a': { version: '1.0.0' },
    'node_modules/tool': { version: '2.0.0', dev: true },
    'node_modules/node': { version: '24.0.0', optional: true },
    'node_modules/native': { version: '1.0.0', optional: true },
  },
};

/** Takes the lockfile's word for what it installed, like the real one; the packaged Node is the one of this test. */
const NPM = `#!/bin/sh
echo "$@" >> "$PWD/npm-calls"
[ -n "$NPM_FAILS" ] && { echo "npm error network" >&2; exit 5; }
mkdir -p node_modules/node/bin node_modules/node/node_modules/node-x/include node_modules/node/node_modules/node-x/bin
cp package-lock.json node_modules/node/node_modules/.package-lock.json
ln -sf ${process.execPath} node_modules/node/bin/node
cp package-lock.json node_modules/.package-lock.json
`;

const MAIN = `
const greeting: string = 'main';
process.on('SIGTERM', () => { console.log('SIGTERM'); process.exit(7); });
process.on('SIGHUP', () => console.log('SIGHUP'));
console.log(greeting, process.version.split('.')[0], JSON.stringify(process.argv.slice(2)));
if (process.argv.includes('--exit')) process.exit(9);
setInterval(() => {}, 1000);
`;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'lanekeeper-start-'));
  cpSync(join(ROOT, 'scripts'), join(root, 'scripts'), { recursive: true });
  for (const folder of ['src', 'path']) mkdirSync(join(root, folder));
  writeFileSync(join(root, 'package.json'), '{"type":"module"}');
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify(LOCK));
  writeFileSync(join(root, 'src', 'main.ts'), MAIN);
  writeFileSync(join(root, 'path', 'npm'), NPM, { mode: 0o755 });
  for (const program of ['sh', 'mkdir', 'ln', 'cp'])
    symlinkSync(which(program) ?? '', join(root, 'path', program));
});

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (hasEnded(child)) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  rmSync(root, { recursive: true, force: true });
});

function which(program: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => !folder.startsWith(BIN));
  return folders.map((folder) => join(folder, program)).find((file) => existsSync(file));
}

function start(args: string[], options: { node?: string; env?: NodeJS.ProcessEnv } = {}) {
  const child = spawn(options.node ?? process.execPath, ['scripts/start.mjs', ...args], {
    cwd: root,
    env: { PATH: join(root, 'path'), HOME: root, ...options.env },
  });
  children.push(child);
  const closed = once(child, 'close');
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data: Buffer) => (output += data.toString()));
  const until = async (text: string) => {
    while (!output.includes(text)) {
      if (hasEnded(child)) throw new Error(`ended with ${child.exitCode ?? child.signalCode}: ${output}`);
      await Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data'), once(child, 'exit')]);
    }
  };
  const exit = async (): Promise<{ code: number | null; output: string }> => {
    await closed;
    return { code: child.exitCode, output };
  };
  return { child, until, exit };
}

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;

const npmCalls = () =>
  existsSync(join(root, 'npm-calls')) ? readFileSync(join(root, 'npm-calls'), 'utf8').trim().split('\n') : [];
const installed = (packages: Record<string, unknown>) => {
  mkdirSync(join(root, 'node_modules'), { recursive: true });
  writeFileSync(join(root, 'node_modules', '.package-lock.json'), JSON.stringify({ packages }));
};

const old = which('node');
const oldVersion = old ? spawnSync(old, ['--version'], { encoding: 'utf8' }).stdout.trim() : '';
const hasOld = /^v2[0-3]\./.test(oldVersion);

describe('npm start', () => {
  it('installs production packages on the first run, and nothing on the second', async () => {
    const first = await start(['--exit']).exit();
    expect(first.output).toContain('Installing packages from package-lock.json (first run)');
    expect(first.code).toBe(9);
    const second = await start(['--exit']).exit();
    expect(second).toEqual({ code: 9, output: `main v24 ["--exit"]\n` });
    expect(npmCalls()).toHaveLength(1);
    expect(npmCalls()[0]).toMatch(/^ci .*--omit=dev/);
    // The C++ headers of the packaged Node are not kept.
    expect(readdirSync(join(root, 'node_modules', 'node', 'node_modules', 'node-x'))).toEqual(['bin']);
  });

  it('installs anew when the lockfile moved on, and keeps the tools of a developer', async () => {
    installed({
      'node_modules/a': { version: '0.9.0' },
      'node_modules/tool': { version: '2.0.0', dev: true },
    });
    const { output } = await start(['--exit']).exit();
    expect(output).toContain('Installing all packages from package-lock.json (a)');
    expect(npmCalls()).toEqual([expect.stringContaining('--include=dev')]);
  });

  it('installs nothing for tools and native extras that are missing', async () => {
    installed({ 'node_modules/a': { version: '1.0.0' } });
    expect((await start(['--exit']).exit()).output).toBe('main v24 ["--exit"]\n');
    expect(npmCalls()).toEqual([]);
  });

  it('passes arguments as they are', async () => {
    installed({ 'node_modules/a': { version: '1.0.0' } });
    const { output } = await start(['--exit', '--role', 'worker', 'a b', '']).exit();
    expect(output).toBe('main v24 ["--exit","--role","worker","a b",""]\n');
  });

  it('says what to do when npm fails', async () => {
    const { code, output } = await start([], { env: { NPM_FAILS: '1' } }).exit();
    expect(code).toBe(1);
    expect(output).toContain('npm ci failed with exit code 5');
    expect(output).not.toContain('at ');
  });

  it('says what to do when the lockfile is damaged', async () => {
    writeFileSync(join(root, 'package-lock.json'), '<<<<<<< HEAD');
    const { code, output } = await start([]).exit();
    expect(code).toBe(1);
    expect(output).toContain('package-lock.json is missing or damaged');
  });

  it('lets signals through and ends as the server ends', async () => {
    installed({ 'node_modules/a': { version: '1.0.0' } });
    const { child, until, exit } = start([]);
    await until('main v24');
    child.kill('SIGHUP');
    await until('SIGHUP');
    child.kill('SIGTERM');
    expect(await exit()).toMatchObject({ code: 7, output: expect.stringContaining('SIGTERM') });
  });
});

describe.skipIf(!hasOld)('npm start on an older Node (skipped where the machine has none)', () => {
  it('runs the server on the packaged Node 24 and passes signals and the exit code on', async () => {
    const { child, until, exit } = start(['--role', 'all'], { node: old ?? '' });
    await until('main v24 ["--role","all"]');
    child.kill('SIGHUP');
    await until('SIGHUP');
    child.kill('SIGTERM');
    expect(await exit()).toMatchObject({ code: 7 });
  });

  it('installs when only the packaged Node is missing', async () => {
    installed({ 'node_modules/a': { version: '1.0.0' } });
    const { output, code } = await start(['--exit'], { node: old ?? '' }).exit();
    expect(output).toContain('(Node 24)');
    expect(output).toContain('main v24');
    expect(code).toBe(9);
  });

  it('says what to do when it can not be had', async () => {
    writeFileSync(join(root, 'path', 'npm'), NPM.replace(/^ln .*$/m, ''), { mode: 0o755 });
    const { output, code } = await start([], { node: old ?? '' }).exit();
    expect(code).toBe(1);
    expect(output).toContain(`Node 24 is needed, this is ${oldVersion}`);
  });
});
