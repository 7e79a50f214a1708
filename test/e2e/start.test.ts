// `npm start` as a person types it: quick when everything is installed, stopped by stopping npm, re-read while it runs.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

const ROOT = join(import.meta.dirname, '..', '..');

let folder: string;
let children: ChildProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lanekeeper-npm-start-'));
  await writeFile(join(folder, 'overlay.yaml'), '');
});
afterEach(async () => {
  for (const child of children) killGroup(child);
  children = [];
  await rm(folder, { recursive: true, force: true });
});

/** npm and what it started; nothing is left of them if the test went well. */
function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

interface Started {
  child: ChildProcess;
  lines: string[];
  url: string;
  /** From the command to ready. */
  tookMs: number;
  ended: Promise<unknown[]>;
}

/** What Node alone takes to start and end here, now, in milliseconds. */
function bareNodeMs(): number {
  const startedAt = performance.now();
  spawnSync(process.execPath, ['-e', '0']);
  return performance.now() - startedAt;
}

async function npmStart(...args: string[]): Promise<Started> {
  const startedAt = performance.now();
  const child = spawn('npm', ['start', '--', ...args], {
    cwd: ROOT,
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: folder,
      PORT: '0',
      LANEKEEPER_DATA_DIR: folder,
      LANEKEEPER_CONFIG: join(folder, 'overlay.yaml'),
      // Nothing may be fetched.
      npm_config_registry: 'http://127.0.0.1:1',
      npm_config_update_notifier: 'false',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  children.push(child);
  const ended = once(child, 'close');
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => lines.push(line));
  }
  await vi.waitFor(() => expect(lines.join('\n')).toMatch(/"msg":"ready"/), { timeout: 20_000, interval: 5 });
  const tookMs = performance.now() - startedAt;
  const ready: { url: string } = JSON.parse(lines.find((line) => line.includes('"ready"')) ?? '');
  return { child, lines, url: ready.url, tookMs, ended };
}

describe('npm start', () => {
  it('is ready within 2 s when everything is installed', async () => {
    // Other tests run on the same machine, which may be a slow one: then Node alone takes more than its usual 80 ms.
    const tries: { tookMs: number; limitMs: number }[] = [];
    while (tries.length < 5 && tries.every(({ tookMs, limitMs }) => tookMs >= limitMs)) {
      const limitMs = Math.max(2_000, 25 * bareNodeMs());
      const { child, ended, tookMs } = await npmStart();
      tries.push({ tookMs, limitMs });
      child.kill('SIGTERM');
      await ended;
    }
    const { tookMs, limitMs } = tries.at(-1)!;
    expect(tookMs).toBeLessThan(limitMs);
  });

  it('drains and leaves nothing behind when npm is told to stop', async () => {
    const { child, ended, lines, url } = await npmStart();
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect(lines.join('\n')).toContain('"draining"');
    await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed');
  });

  it('tells in a few lines why it does not start', async () => {
    await writeFile(join(folder, 'overlay.yaml'), 'agent: { max_stepz: 3 }');
    const child = spawn(process.execPath, ['scripts/start.mjs'], {
      cwd: ROOT,
      env: {
        PATH: process.env['PATH'] ?? '',
        LANEKEEPER_CONFIG: join(folder, 'overlay.yaml'),
        LANEKEEPER_DATA_DIR: folder,
      },
      detached: true,
    });
    children.push(child);
    let output = '';
    child.stderr.on('data', (data: Buffer) => (output += data.toString()));
    expect(await once(child, 'close')).toEqual([1, null]);
    expect(output).toContain('agent.max_stepz');
    expect(output).toContain('max_steps?');
    expect(output).not.toMatch(/^\s+at /m);
  });
});
