// The benchmarks themselves, quickly: that they run and measure what they say, not how fast anything is.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const root = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);

async function bench(name: string): Promise<{ printed: string; data: unknown }> {
  const args = [join(root, 'bench', 'index.ts'), name, '--quick'];
  const { stdout } = await run(process.execPath, args, { cwd: root });
  const file = await readFile(join(root, 'bench', 'results', `${name}.json`), 'utf8');
  return { printed: stdout, data: z.object({ data: z.unknown() }).parse(JSON.parse(file)).data };
}

const lane = z.object({
  connections: z.number(),
  idleKeys: z.number(),
  overlaps: z.number(),
  misplaced: z.number(),
});
const lanesShape = z.object({ rounds: z.object({ objects: z.array(lane), jobs: z.array(lane) }) });

const positive = z.number().positive();
const serverShape = z.tuple([
  z.object({ backend: z.literal('embedded'), perSecond: positive, readyMs: positive }),
  z.object({
    backend: z.literal('redis'),
    perSecond: positive,
    readyMs: positive,
    commands: z.object({ sent: z.record(z.string(), z.number()) }),
  }),
]);

describe('npm run bench', () => {
  it('lanes: both ways run each message once and in order; only one of them leaves keys and connections behind', async () => {
    const { printed, data } = await bench('lanes');
    expect(printed).toContain('overlapping runs');
    const { objects, jobs } = lanesShape.parse(data).rounds;
    expect(objects).toMatchObject([{ connections: 51, idleKeys: 200, overlaps: 0, misplaced: 0 }]);
    expect(jobs).toMatchObject([{ connections: 2, overlaps: 0, misplaced: 0 }]);
    expect(jobs[0]?.idleKeys).toBeLessThanOrEqual(6);
  });

  it('loop: our side runs', async () => {
    const { printed } = await bench('loop');
    expect(printed).toContain('pi-agent-core');
  });

  it('server: both backends answer; a message costs no more than 25 Redis commands, each known by name', async () => {
    const { data } = await bench('server');
    const [, { commands }] = serverShape.parse(data);
    const names = Object.keys(commands.sent);
    const sum = Object.values(commands.sent).reduce((all, count) => all + count, 0);
    expect(sum).toBeGreaterThan(5);
    expect(sum).toBeLessThanOrEqual(25);
    // A script without a name is shown by the start of its hash.
    expect(names.filter((name) => /^evalsha [0-9a-f]{8}$/.test(name))).toEqual([]);
  });
});
