// Tools of the operator's own: each .ts, .js or .mjs file in `tools.folder` is one, its default export the tool. Read at
// the start and on SIGHUP; a bad file is reported by name, and the others are tools all the same.
import { readdir, stat } from 'node:fs/promises';
import { basename, extname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Logger } from '../ports/log.ts';
import { success, type Tool, type ToolContext, type ToolResult } from '../ports/tool.ts';
import type { CheckArguments } from './find-tools.ts';
import type { SourceTool, ToolSource } from './source.ts';
import { tryImports } from './trial.ts';

/** What a file exports as its default. `name` is the file's unless it says another. */
export interface DropInTool extends Omit<Tool, 'name' | 'idempotent' | 'execute'> {
  name?: string;
  /** Default false: after a crash in the middle of it the model is told, instead of the tool being run again. */
  idempotent?: boolean;
  /** A text is a success; whatever it throws becomes an error result. */
  execute(
    args: Record<string, unknown>,
    context: ToolContext,
  ): Promise<ToolResult | string> | ToolResult | string;
}

export interface FolderSource extends ToolSource {
  reload(): Promise<void>;
  /** File → what is wrong with it, as of the last reload. */
  problems(): ReadonlyMap<string, string>;
}

const EXTENSIONS = new Set(['.ts', '.mts', '.js', '.mjs']);
/** A file that waits for ever at its top level must not keep the server from starting. */
const LOAD_TIMEOUT_MS = 10_000;

export interface FolderOptions {
  folder: string;
  check: CheckArguments;
  log: Logger;
  /** For one file. */
  loadTimeoutMs?: number;
}

interface File {
  name: string;
  url: string;
  /** Changes with its content. */
  version: string;
}

export function createFolderSource({ folder, check, log, ...more }: FolderOptions): FolderSource {
  const limitMs = more.loadTimeoutMs ?? LOAD_TIMEOUT_MS;
  let tools: readonly SourceTool[] = [];
  let problems: ReadonlyMap<string, string> = new Map();
  /** By file name, as of the last reload. */
  let loaded = new Map<string, { version: string; tool: Tool }>();
  let reloading: Promise<void> = Promise.resolve();

  async function load({ name, url, version }: File): Promise<Tool> {
    const known = loaded.get(name);
    if (known?.version === version) return known.tool;
    // Modules are cached by URL: another query is another module.
    const module: unknown = await within(limitMs, import(`${url}?version=${version}`));
    return toTool(basename(name, extname(name)), module, check);
  }

  async function read(): Promise<void> {
    if (folder === '') return;
    const wrong = new Map<string, string>();
    const files = await filesIn(resolve(folder)).catch((error: unknown) => {
      wrong.set(folder, `the folder can't be read: ${reasonOf(error)}`);
      return [];
    });
    const changed = files.filter(({ name, version }) => loaded.get(name)?.version !== version);
    const trial = await tryImports(
      changed.map(({ url }) => url),
      limitMs,
    );
    const now: typeof loaded = new Map();
    const found: SourceTool[] = [];
    for (const file of files) {
      try {
        const failed = trial.get(file.url);
        if (failed !== undefined) throw new Error(failed);
        const tool = await load(file);
        now.set(file.name, { version: file.version, tool });
        if (found.some(({ tool: other }) => other.name === tool.name))
          throw new Error(`the name ${tool.name} is taken by another file`);
        found.push({ tool, from: 'folder' });
      } catch (error) {
        wrong.set(file.name, reasonOf(error));
      }
    }
    loaded = now;
    for (const [file, problem] of wrong) {
      log.error({ file, problem }, 'this tool is left out: correct the file, then send SIGHUP');
    }
    const same = found.length === tools.length && found.every(({ tool }, n) => tool === tools[n]?.tool);
    if (!same) {
      tools = found;
      log.info({ tools: found.map(({ tool }) => tool.name) }, 'tools of the folder are loaded');
    }
    problems = wrong;
  }

  return {
    tools: () => tools,
    known: () => tools,
    problems: () => problems,
    reload() {
      reloading = reloading.then(read);
      return reloading;
    },
    health() {
      if (folder === '') return [];
      const detail = [...problems].map(([file, problem]) => `${file}: ${problem}`).join('; ');
      return [detail === '' ? { name: 'folder', state: 'ok' } : { name: 'folder', state: 'broken', detail }];
    },
  };
}

const isTool = (file: string): boolean =>
  EXTENSIONS.has(extname(file)) && !/^[._]|\.d\.m?ts$|\.test\.m?[jt]s$/u.test(file);

async function filesIn(folder: string): Promise<File[]> {
  const names = (await readdir(folder)).filter(isTool).sort();
  return Promise.all(
    names.map(async (name) => {
      const path = join(folder, name);
      const { mtimeMs, size } = await stat(path);
      return { name, url: pathToFileURL(path).href, version: `${mtimeMs}-${size}` };
    }),
  );
}

/** Throws an Error that says what is wrong with the export. */
function toTool(fileName: string, module: unknown, check: CheckArguments): Tool {
  const exported = isObject(module) ? module['default'] : undefined;
  if (!isObject(exported)) throw new Error('it has no default export that is an object');
  const { name = fileName, description, parameters, execute, stage, execution, timeoutMs } = exported;
  if (typeof name !== 'string' || !/^[a-zA-Z0-9_-]{1,64}$/u.test(name))
    throw new Error('its name must be 1 to 64 letters, digits, _ and -');
  if (typeof description !== 'string' || description === '')
    throw new Error('description must be a text that tells the model what the tool does');
  if (!isObject(parameters) || parameters['type'] !== 'object')
    throw new Error("parameters must be a JSON Schema with type: 'object'");
  if (typeof execute !== 'function') throw new Error('execute must be a function');
  if (!['pre_process', 'post_process', undefined].includes(stage as string | undefined))
    throw new Error("stage must be 'pre_process' or 'post_process'");
  if (!['sequential', 'parallel', undefined].includes(execution as string | undefined))
    throw new Error("execution must be 'sequential' or 'parallel'");
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs >= 0))
    throw new Error('timeoutMs must be a number of milliseconds');
  const tool = exported as unknown as DropInTool;
  const made: Tool = {
    ...tool,
    name,
    idempotent: tool.idempotent === true,
    async execute(args, context) {
      const result = await tool.execute(args, context);
      return typeof result === 'string' ? success(result) : result;
    },
  };
  const checked = check(made, {});
  if (checked.ok && checked.unchecked !== undefined)
    throw new Error(`parameters are not a JSON Schema that can be used: ${checked.unchecked}`);
  return made;
}

async function within<T>(limitMs: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`it did not load within ${limitMs / 1000} seconds`)),
    limitMs,
  );
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
