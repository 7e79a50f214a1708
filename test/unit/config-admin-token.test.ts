// The admin token: configured, or made once and kept where only this user can read it.
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ensureAdminToken } from '../../config/admin-token.ts';
import { configSchema } from '../../config/schema.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lanekeeper-token-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const config = (adminToken = '') =>
  configSchema.parse({ server: { admin_token: adminToken }, storage: { data_dir: join(folder, 'data') } });

describe('the admin token', () => {
  it('is the configured one, and nothing is written', async () => {
    const lines: string[] = [];
    expect(await ensureAdminToken(config('mine'), (line) => lines.push(line))).toBe('mine');
    expect(lines).toEqual([]);
    await expect(stat(join(folder, 'data'))).rejects.toThrow('ENOENT');
  });

  it('is made at the first start, printed once, and kept with mode 0600', async () => {
    const lines: string[] = [];
    const print = (line: string) => lines.push(line);
    const token = await ensureAdminToken(config(), print);
    expect(token).toMatch(/^[\w-]{32}$/);
    expect(await ensureAdminToken(config(), print)).toBe(token);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(token);
    const file = join(folder, 'data', 'admin-token');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, 'utf8')).toBe(`${token}\n`);
  });

  it('is one for processes that start together', async () => {
    const print = () => {};
    const starts = Array.from({ length: 8 }, () => ensureAdminToken(config(), print));
    expect(new Set(await Promise.all(starts)).size).toBe(1);
  });

  it('is not replaced when its file is damaged: the operator is told', async () => {
    await ensureAdminToken(config(), () => {});
    await writeFile(join(folder, 'data', 'admin-token'), '\n');
    await expect(ensureAdminToken(config(), () => {})).rejects.toThrow('delete it');
  });
});
