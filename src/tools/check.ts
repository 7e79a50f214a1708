// What the doctor says of the tools. Loads the folder's files and reads the skills, but starts no MCP server.
import { accessSync, constants } from 'node:fs';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import type { McpServerSettings } from '../../config/schema.ts';
import type { Logger } from '../ports/log.ts';
import type { CheckArguments } from './find-tools.ts';
import { createFolderSource } from './folder.ts';
import { builtInProblems } from './built-in.ts';
import type { ToolsetOptions } from './index.ts';
import { createSkillsSource } from './skills.ts';

interface Finding {
  state: 'ok' | 'note' | 'wrong';
  part: string;
  text: string;
}

type CheckOptions = Pick<ToolsetOptions, 'settings' | 'builtIn' | 'check'> & {
  /** Where programs are looked for: the PATH. */
  path: string;
};

export async function* checkTools(options: CheckOptions): AsyncGenerator<Finding> {
  const { settings } = options;
  for (const text of builtInProblems(options)) yield { state: 'wrong', part: 'tools', text };
  yield { state: 'ok', part: 'tools', text: `built in: ${settings.enabled.join(', ') || 'none'}` };
  if (settings.skills !== '') yield* checkSkills(settings.skills);
  if (settings.folder !== '') yield* checkFolder(settings.folder, options.check);
  for (const [name, server] of Object.entries(settings.mcp.servers)) {
    if (server.enabled) yield checkServer(`mcp server ${name}`, server, options.path);
  }
}

async function* checkFolder(folder: string, check: CheckArguments): AsyncGenerator<Finding> {
  const source = createFolderSource({ folder, check, log: silent });
  await source.reload();
  for (const [file, problem] of source.problems())
    yield { state: 'wrong', part: `tool ${file}`, text: problem };
  const names = (await source.tools()).map(({ tool }) => tool.name);
  yield { state: 'ok', part: 'tools', text: `from ${folder}: ${names.join(', ') || 'none'}` };
}

async function* checkSkills(folder: string): AsyncGenerator<Finding> {
  const source = createSkillsSource({ folder, log: silent });
  const prompt = await source.prompt();
  for (const [skill, problem] of source.problems())
    yield { state: 'wrong', part: `skill ${skill}`, text: problem };
  yield { state: 'ok', part: 'skills', text: `${Buffer.byteLength(prompt)} bytes in the prompt` };
}

function checkServer(part: string, { command, url }: McpServerSettings, path: string): Finding {
  if (url !== '')
    return { state: 'ok', part, text: `at ${URL.parse(url)?.host ?? url}, when it is first needed` };
  const places =
    command.includes('/') || isAbsolute(command)
      ? [resolve(command)]
      : path.split(delimiter).map((folder) => join(folder, command));
  if (places.some(isProgram)) return { state: 'ok', part, text: `${command}, when it is first needed` };
  return {
    state: 'wrong',
    part,
    text: `the program ${command} is not found: install it, or write its whole path`,
  };
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const nothing = (): void => undefined;
const silent: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => silent };
