// What `npm test` does when redis-server or Chromium is missing: install them with the machine's package manager, or say
// exactly what to do. Package managers are stand-ins that record their calls.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const MODULE = join(import.meta.dirname, '..', '..', 'scripts', 'lib', 'machine.mjs');

let path: string;

beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), 'lanekeeper-machine-'));
  for (const program of ['sh', 'cp', 'chmod']) symlinkSync(which(program), join(path, program));
});
afterEach(() => rmSync(path, { recursive: true, force: true }));

function which(program: string): string {
  const folder = (process.env['PATH'] ?? '').split(delimiter).find((each) => existsSync(join(each, program)));
  if (!folder) throw new Error(`${program} is not in the PATH`);
  return join(folder, program);
}

const add = (name: string, script = '') =>
  writeFileSync(join(path, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });

/** Records the call; an install makes the named programs appear. */
const manager = (name: string) =>
  add(
    name,
    `echo "${name} $*" >> "${path}/calls"\nfor last; do :; done\n[ -f "${path}/broken" ] || case "$*" in
*install*redis*|*add*redis*) cp "${path}/sh" "${path}/redis-server" ;;
*chrom*) [ -f "${path}/without-$last" ] && exit 100; cp "${path}/sh" "${path}/$last" ;;
esac`,
  );

/** Root needs no sudo; for everybody else this one asks for no password. */
const sudo = () => add('sudo', 'while [ "${1#-}" != "$1" ]; do shift; done\n[ "$1" = true ] || exec "$@"');

const calls = () =>
  existsSync(join(path, 'calls')) ? readFileSync(join(path, 'calls'), 'utf8').trim().split('\n') : [];

function ensure(env: NodeJS.ProcessEnv = {}) {
  const code = `const { ensurePrograms } = await import(${JSON.stringify(MODULE)}); console.log(JSON.stringify(ensurePrograms()));`;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    env: { PATH: path, ...env },
    encoding: 'utf8',
  });
  return {
    status,
    found: status === 0 ? (JSON.parse(stdout) as Record<string, string>) : undefined,
    message: stderr,
  };
}

describe('programs that tests need', () => {
  it('are taken as they are, and where Chromium is is passed on', () => {
    add('redis-server');
    add('google-chrome');
    manager('apt-get');
    expect(ensure()).toEqual({
      status: 0,
      found: { CHROMIUM_PATH: join(path, 'google-chrome') },
      message: '',
    });
    expect(calls()).toEqual([]);
  });

  it('may be named', () => {
    add('redis-server');
    add('my-browser');
    const named = join(path, 'my-browser');
    expect(ensure({ CHROMIUM_PATH: named }).found).toEqual({ CHROMIUM_PATH: named });
  });

  it('are installed with apt-get, its lists updated once', () => {
    manager('apt-get');
    sudo();
    expect(ensure().found).toEqual({ CHROMIUM_PATH: join(path, 'chromium-headless-shell') });
    expect(calls()).toEqual([
      'apt-get update -qq',
      'apt-get install -y -qq --no-install-recommends redis-server',
      'apt-get install -y -qq --no-install-recommends chromium-headless-shell',
    ]);
  });

  it('are installed under another name where the first is unknown', () => {
    add('redis-server');
    manager('apt-get');
    sudo();
    writeFileSync(join(path, 'without-chromium-headless-shell'), '');
    expect(ensure().found).toEqual({ CHROMIUM_PATH: join(path, 'chromium') });
    expect(calls().at(-1)).toBe('apt-get install -y -qq --no-install-recommends chromium');
  });

  it('are installed with apk, and only what is missing', () => {
    add('redis-server');
    manager('apk');
    sudo();
    expect(ensure().status).toBe(0);
    expect(calls()).toEqual(['apk add --no-cache chromium']);
  });

  it('are named when there is no package manager', () => {
    const { status, message } = ensure();
    expect(status).toBe(1);
    expect(message).toContain('redis-server and Chromium missing');
    expect(message).toContain('CHROMIUM_PATH');
  });

  it('are named when the package manager has not got them', () => {
    manager('apt-get');
    sudo();
    writeFileSync(join(path, 'broken'), '');
    const { status, message } = ensure();
    expect(status).toBe(1);
    expect(message).toContain('redis-server is missing. Install Redis 7 or newer');
  });

  it('are named with the commands to run when this user may not install', () => {
    manager('apt-get');
    const { status, message } = ensure();
    if (process.getuid?.() === 0) {
      // Root may: the commands are run and not only named.
      expect(status).toBe(0);
    } else {
      expect(status).toBe(1);
      expect(message).toContain('sudo apt-get install -y -qq --no-install-recommends redis-server');
    }
  });

  it('are not pretended when the package manager fails', () => {
    add('apt-get', 'exit 100');
    sudo();
    const { status, message } = ensure();
    expect(status).toBe(1);
    expect(message).toContain('"apt-get update -qq" failed with exit code 100');
  });
});
