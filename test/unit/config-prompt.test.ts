// The system prompt's sources: small, and read anew for each run.
import { mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PROMPT_FOLDER } from '../../config/load.ts';
import { createPromptSource } from '../../config/prompt.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lanekeeper-prompt-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the prompt source', () => {
  it('joins the three files in a fixed order', async () => {
    await writeFile(join(folder, 'RULE.md'), 'rule\n');
    await writeFile(join(folder, 'AGENT.md'), 'agent\n');
    await writeFile(join(folder, 'USER.md'), 'user\n');
    expect(await createPromptSource(folder).read()).toBe('agent\n\nuser\n\nrule');
  });

  it('sees an edit at the next read, also one that leaves the size as it was', async () => {
    const file = join(folder, 'AGENT.md');
    const source = createPromptSource(folder);
    await writeFile(file, 'one');
    expect(await source.read()).toBe('one');
    await writeFile(file, 'two');
    await utimes(file, new Date(), new Date(Date.now() + 5_000));
    expect(await source.read()).toBe('two');
  });

  it('does without a file that is missing, empty or deleted', async () => {
    const file = join(folder, 'USER.md');
    const source = createPromptSource(folder);
    expect(await source.read()).toBe('');
    await writeFile(join(folder, 'AGENT.md'), ' \n');
    await writeFile(file, 'user');
    expect(await source.read()).toBe('user');
    await rm(file);
    expect(await source.read()).toBe('');
  });

  it('rejects when a source can not be read, instead of running with half a prompt', async () => {
    await writeFile(join(folder, 'x'), '');
    await expect(createPromptSource(join(folder, 'x')).read()).rejects.toThrow('ENOTDIR');
  });

  it('ships a prompt of at most 2 KB, so that a first request with tools stays under 4 KB', async () => {
    const text = await createPromptSource(PROMPT_FOLDER).read();
    expect(Buffer.byteLength(text)).toBeGreaterThan(500);
    expect(Buffer.byteLength(text)).toBeLessThan(2_048);
    expect(text).toContain(
      await readFile(join(PROMPT_FOLDER, 'RULE.md'), 'utf8').then((rule) => rule.trim()),
    );
  });
});
