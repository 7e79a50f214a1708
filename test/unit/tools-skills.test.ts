// Skills: listed in the prompt, read when they are needed, confined to their folders, re-read for each run.
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSkillsSource } from '../../src/tools/skills.ts';
import { brief, messagesOf, play } from '../fakes/agent.ts';
import { recordingLog } from '../fakes/log.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lanekeeper-skills-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function skill(name: string, text: string, files: Record<string, string> = {}): Promise<void> {
  await mkdir(join(folder, name), { recursive: true });
  await writeFile(join(folder, name, 'SKILL.md'), text);
  for (const [file, content] of Object.entries(files)) {
    await mkdir(join(folder, name, file, '..'), { recursive: true });
    await writeFile(join(folder, name, file), content);
  }
}

const front = (name: string, description: string) => `---\nname: ${name}\ndescription: ${description}\n---\n`;

function source() {
  const { log, lines } = recordingLog();
  const made = createSkillsSource({ folder, log });
  const read = async (...args: Record<string, unknown>[]) => {
    const tools = (await made.tools()).map(({ tool }) => tool);
    const calls = args.map((one) => ({ calls: [['read_skill', one] as [string, Record<string, unknown>]] }));
    const { result } = await play({ tools, script: [...calls, 'done'] });
    return brief(messagesOf(result)).filter((line) => /^(result|error) /.test(line));
  };
  return { made, read, lines };
}

describe('skills', () => {
  it('are in the prompt by name and description only; the rest is read by the tool', async () => {
    await skill('refund', `${front('refund', 'How refunds are made.')}# Refunds\n\nAsk for the number.`, {
      'forms/letter.md': 'Dear customer',
      '.hidden': 'no',
    });
    await skill('abc', `---\ndescription: >\n  Two lines\n  in YAML.\n---\nBody`);
    const { made, read } = source();
    const prompt = await made.prompt();
    expect(prompt).toContain('- abc: Two lines in YAML.\n- refund: How refunds are made.');
    expect(prompt).not.toContain('Ask for the number');
    const [body, letter, none] = await read(
      { name: 'refund' },
      { name: 'refund', file: 'forms/letter.md' },
      { name: 'other' },
    );
    expect(body).toBe('result # Refunds\n\nAsk for the number.\n\nFiles of this skill: forms/letter.md');
    expect(letter).toBe('result Dear customer');
    expect(none).toBe('error There is no skill "other"; there are abc, refund.');
  });

  describe('give nothing but texts of their folder', () => {
    const cases: [string, RegExp][] = [
      ['../secret.txt', /not in the folder/],
      ['sub/../../secret.txt', /not in the folder/],
      ['/etc/passwd', /not in the folder/],
      ['../ab/f.txt', /not in the folder/],
      ['link.txt', /not in the folder/],
      ['up/secret.txt', /not in the folder/],
      ['.', /not in the folder/],
      ['sub', /not a file/],
      ['.env', /hidden/],
      ['.git/config', /hidden/],
      ['sub/.env', /hidden/],
      ['binary', /not a text/],
      ['gbk.txt', /not a text/],
      ['large', /larger than 200000 bytes/],
      ['pipe', /not a file/],
      ['none', /no such file/],
      ['a\0b', /can't be read/],
    ];

    async function makeSkills(): Promise<void> {
      await writeFile(join(folder, 'secret.txt'), 'hush');
      await skill('ab', front('ab', 'x'), { 'f.txt': 'hush' });
      await skill('a', front('a', 'x'), {
        '.env': 'KEY=hush',
        '.git/config': 'hush',
        'sub/.env': 'hush',
        'sub/inner.txt': 'text',
        binary: 'x\0hush',
        large: 'hush'.repeat(60_000),
      });
      await writeFile(join(folder, 'a', 'gbk.txt'), Buffer.from('c4e3bac3', 'hex'));
      await symlink(join(folder, 'secret.txt'), join(folder, 'a', 'link.txt'));
      await symlink(folder, join(folder, 'a', 'up'));
      await symlink(join(folder, 'a', 'sub', 'inner.txt'), join(folder, 'a', 'inside.txt'));
      execFileSync('mkfifo', [join(folder, 'a', 'pipe')]);
    }

    it.each(cases)('%j is refused', async (file, why) => {
      await makeSkills();
      const [answer] = await source().read({ name: 'a', file });
      expect(answer).toMatch(/^error .*can't be read/);
      expect(answer).toMatch(why);
      expect(answer).not.toContain('hush');
    });

    it('and a link within the folder is one of them', async () => {
      await makeSkills();
      const [list, inside] = await source().read({ name: 'a' }, { name: 'a', file: 'inside.txt' });
      expect(inside).toBe('result text');
      for (const hidden of ['.env', '.git', 'link.txt', 'up/']) expect(list).not.toContain(hidden);
    });
  });

  it('are read again for each run: new, changed, removed', async () => {
    const { made } = source();
    expect(await made.prompt()).toBe('');
    expect(await made.tools()).toEqual([]);
    await skill('a', front('a', 'first'));
    expect(await made.prompt()).toContain('- a: first');
    const offered = await made.tools();
    expect(offered).toHaveLength(1);
    await skill('a', front('a', 'second'));
    await utimes(join(folder, 'a', 'SKILL.md'), new Date(), new Date(Date.now() + 5_000));
    expect(await made.prompt()).toContain('- a: second');
    expect(await made.tools()).toBe(offered);
    await rm(join(folder, 'a'), { recursive: true });
    expect(await made.prompt()).toBe('');
  });

  it('that are not well-formed are named, once, and left out', async () => {
    await skill('good', front('good', 'x'));
    await skill('plain', 'no front matter');
    await skill('mute', '---\nname: mute\n---\n');
    await skill('other', front('name', 'x'));
    await skill('broken', '---\nname: [\n---\n');
    await skill('huge', `${front('huge', 'x')}${'x'.repeat(300_000)}`);
    await mkdir(join(folder, 'away'));
    await writeFile(join(folder, 'elsewhere.md'), front('away', 'x'));
    await symlink(join(folder, 'elsewhere.md'), join(folder, 'away', 'SKILL.md'));
    await mkdir(join(folder, 'pipe'));
    execFileSync('mkfifo', [join(folder, 'pipe', 'SKILL.md')]);
    await mkdir(join(folder, 'empty'));
    const { made, lines } = source();
    await made.prompt();
    expect(await made.prompt()).toContain('- good: x');
    expect([...made.problems().keys()].sort()).toEqual([
      'away',
      'broken',
      'huge',
      'mute',
      'other',
      'pipe',
      'plain',
    ]);
    expect(lines.filter(({ level }) => level === 'error')).toHaveLength(7);
    expect(made.health()).toMatchObject([
      { state: 'broken', detail: expect.stringContaining('mute: its front matter has no description') },
    ]);
  });
});
