// Skills: folders with a SKILL.md that says how something is done. Its name and description go into the system prompt; the
// rest, and the files beside it, are read by the model when it needs them, through the tool `read_skill`. Read anew for each run.
import { isUtf8 } from 'node:buffer';
import { constants, type Stats } from 'node:fs';
import { open, readdir, realpath, stat } from 'node:fs/promises';
import { join, relative, resolve, sep, isAbsolute } from 'node:path';
import { parse } from 'yaml';
import type { Logger } from '../ports/log.ts';
import { fail, success, type Tool, type ToolResult } from '../ports/tool.ts';
import { SKILLS, type SourceTool, type ToolSource } from './source.ts';

export interface SkillsSource extends ToolSource {
  /** For the system prompt; empty without skills. */
  prompt(): Promise<string>;
  /** Folder → what is wrong with it, as of the last look. */
  problems(): ReadonlyMap<string, string>;
}

interface Skill {
  name: string;
  description: string;
  /** Its folder, without links in it. */
  root: string;
  /** Of the SKILL.md that was read. */
  version: string;
}

const MAX_SKILLS = 50;
const MAX_DESCRIPTION_CHARS = 500;
const MAX_FILE_BYTES = 200_000;
const MAX_LISTED_FILES = 100;
const MAIN = 'SKILL.md';
/** A pipe without a writer would be waited for. */
const OPEN_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
/** https://agentskills.io: lower-case letters, digits and hyphens. */
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/u;

const NONE: readonly SourceTool[] = [];

export function createSkillsSource({ folder, log }: { folder: string; log: Logger }): SkillsSource {
  const read = new Map<string, Skill>();
  let skills: Skill[] = [];
  let problems = new Map<string, string>();
  const offered = [{ tool: createReadSkillTool(() => skills), from: SKILLS }];
  const known = () => (skills.length > 0 ? offered : NONE);

  async function look(): Promise<void> {
    if (folder === '') return;
    const base = resolve(folder);
    const found: Skill[] = [];
    const wrong = new Map<string, string>();
    const names = await readdir(base).catch((error: unknown) => {
      wrong.set(folder, `the folder can't be read: ${reasonOf(error)}`);
      return [];
    });
    for (const name of names.toSorted((a, b) => (a < b ? -1 : 1))) {
      try {
        const skill = await readSkill(join(base, name), name, read.get(name));
        if (!skill) continue;
        read.set(name, skill);
        found.push(skill);
      } catch (error) {
        wrong.set(name, reasonOf(error));
      }
    }
    for (const { name } of found.slice(MAX_SKILLS))
      wrong.set(name, `there are more than ${MAX_SKILLS} skills`);
    for (const [skill, problem] of wrong) {
      if (problems.get(skill) !== problem)
        log.error({ skill, problem }, 'this skill is left out: correct its SKILL.md');
    }
    problems = wrong;
    skills = found.slice(0, MAX_SKILLS);
  }

  return {
    problems: () => problems,
    known,
    tools: () => (folder === '' ? NONE : look().then(known)),
    async prompt() {
      await look();
      if (skills.length === 0) return '';
      const lines = skills.map(({ name, description }) => `- ${name}: ${description}`);
      return `# Skills\n\nInstructions for special tasks. When one fits, read it with read_skill before you start.\n\n${lines.join('\n')}`;
    },
    health() {
      if (folder === '') return [];
      const detail = [...problems].map(([skill, problem]) => `${skill}: ${problem}`).join('; ');
      return [detail === '' ? { name: 'skills', state: 'ok' } : { name: 'skills', state: 'broken', detail }];
    },
  };
}

/** Undefined for a folder without a SKILL.md. Throws an Error that says what is wrong. */
async function readSkill(path: string, name: string, before: Skill | undefined): Promise<Skill | undefined> {
  const file = join(path, MAIN);
  let stats: Stats;
  try {
    stats = await stat(file);
  } catch {
    return undefined;
  }
  const version = `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
  if (before?.version === version) return before;
  const root = await realpath(path);
  const { fields } = splitFrontMatter(await readConfined(root, MAIN));
  const { name: given = name, description } = fields;
  if (typeof given !== 'string' || !NAME.test(given))
    throw new Error('its name must be up to 64 lower-case letters, digits and hyphens');
  if (given !== name) throw new Error(`its name is ${given}, but its folder is called ${name}`);
  if (typeof description !== 'string' || description.trim() === '')
    throw new Error('its front matter has no description');
  const short = description.replaceAll(/\s+/gu, ' ').trim().slice(0, MAX_DESCRIPTION_CHARS);
  return { name: given, description: short, root, version };
}

function splitFrontMatter(text: string): { fields: Record<string, unknown>; body: string } {
  const match = /^\uFEFF?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)(.*)$/su.exec(text);
  if (!match) throw new Error('it does not start with front matter between two lines of ---');
  const fields: unknown = parse(match[1] ?? '', { maxAliasCount: 0, logLevel: 'error' });
  if (typeof fields !== 'object' || fields === null) throw new Error('its front matter is not a map');
  return { fields: fields as Record<string, unknown>, body: match[2]?.trim() ?? '' };
}

function createReadSkillTool(skills: () => readonly Skill[]): Tool {
  return {
    name: 'read_skill',
    description: 'Reads a skill: its instructions and the names of its files, or one of those files.',
    parameters: {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'A skill listed under Skills' },
        file: { type: 'string', description: 'A file of the skill; absent: its instructions' },
      },
      required: ['name'],
      additionalProperties: false,
    },
    execution: 'parallel',
    idempotent: true,
    timeoutMs: 15_000,
    async execute(args): Promise<ToolResult> {
      const skill = skills().find(({ name }) => name === args['name']);
      if (!skill) {
        const names = skills().map(({ name }) => name);
        return fail(`There is no skill "${String(args['name'])}"; there are ${names.join(', ') || 'none'}.`);
      }
      const file = typeof args['file'] === 'string' && args['file'] !== '' ? args['file'] : MAIN;
      try {
        const text = await readConfined(skill.root, file);
        if (file !== MAIN) return success(text, { display: `${skill.name}/${file}` });
        const files = await filesOf(skill.root);
        const list = files.length > 0 ? `\n\nFiles of this skill: ${files.join(', ')}` : '';
        return success(splitFrontMatter(text).body + list, { display: skill.name });
      } catch (error) {
        return fail(`${file} of the skill ${skill.name} can't be read: ${reasonOf(error)}.`);
      }
    },
  };
}

/** A text inside the folder, whatever links and dots say. Throws an Error that says why there is none. */
async function readConfined(root: string, file: string): Promise<string> {
  const outside = new Error('it is not in the folder of the skill');
  const path = resolve(root, file);
  if (!isInside(root, path)) throw outside;
  if (isHidden(relative(root, path))) throw new Error('it is hidden');
  const real = await realpath(path).catch(() => {
    throw new Error('there is no such file');
  });
  if (!isInside(root, real)) throw outside;
  await using handle = await open(real, OPEN_FLAGS);
  const stats = await handle.stat();
  if (!stats.isFile()) throw new Error('it is not a file');
  if (stats.size > MAX_FILE_BYTES) throw new Error(`it is larger than ${MAX_FILE_BYTES} bytes`);
  const bytes = await handle.readFile();
  if (bytes.includes(0) || !isUtf8(bytes)) throw new Error('it is not a text in UTF-8');
  return bytes.toString('utf8');
}

function isInside(root: string, path: string): boolean {
  const way = relative(root, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/** What begins with a dot is not the skill's: keys, and what version control keeps. */
const isHidden = (file: string): boolean => file.split(sep).some((part) => part.startsWith('.'));

async function filesOf(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => file !== MAIN && !isHidden(file))
    .sort()
    .slice(0, MAX_LISTED_FILES);
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
