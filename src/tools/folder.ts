// Tools of the operator's own: each .ts, .js or .mjs file in `tools.folder` is one, its default export the tool. Read at
// the start and on SIGHUP; a bad file is reported by name, and the others are tools all the same.
import { readdir, stat } from 'node:fs/promises';
import { basename, extname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Logger } from '../ports/log.ts';
import { success, type Tool, type ToolContext, type ToolResult } from '../ports/tool.ts';
import type { SourceTool, ToolSource } from './source.ts';

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
/** A module that waits for ever at its top level must not keep the server from starting. */
const LOAD_TIMEOUT_MS = 10_000;

export function createFolderSource({ folder, log }: { folder: string; log: Logger }): FolderSource {
  let tools: readonly SourceTool[] = [];
  let problems = new Map<string, string>();
  const loaded = new Map<string, { version: string; tool: Tool }>();
  let reloading: Promise<void> = Promise.resolve();

  async function load(file: string): Promise<Tool> {
    const path = join(resolve(folder), file);
    const { mtimeMs, size } = await stat(path);
    const version = `${mtimeMs}-${size}`;
    const known = loaded.get(file);
    if (known?.version === version) return known.tool;
    // Modules are cached by URL: another query is another module.
    const url = `${pathToFileURL(path).href}?version=${version}`;
    const module: unknown = await within(LOAD_TIMEOUT_MS, import(url));
    const tool = toTool(basename(file, extname(file)), module);
    loaded.set(file, { version, tool });
    return tool;
  }

  async function read(): Promise<void> {
    if (folder === '') return;
    const found: SourceTool[] = [];
    const wrong = new Map<string, string>();
    const files = await readdir(resolve(folder)).catch((error: unknown) => {
      wrong.set(folder, `the folder can't be read: ${reasonOf(error)}`);
      return [];
    });
    for (const file of files.filter(isTool).sort()) {
      try {
        const tool = await load(file);
        const twin = found.find(({ tool: other }) => other.name === tool.name);
        if (twin) throw new Error(`the name ${tool.name} is taken by another file`);
        found.push({ tool, from: 'folder' });
      } catch (error) {
        wrong.set(file, reasonOf(error));
      }
    }
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

/** Throws an Error that says what is wrong with the export. */
function toTool(fileName: string, module: unknown): Tool {
  const exported = isObject(module) ? module['default'] : undefined;
  if (!isObject(exported)) throw new Error('it has no default export that is an object');
  const { name = fileName, description, parameters, execute } = exported;
  if (typeof name !== 'string' || !/^[a-zA-Z0-9_-]{1,64}$/u.test(name))
    throw new Error('its name must be 1 to 64 letters, digits, _ and -');
  if (typeof description !== 'string' || description === '')
    throw new Error('description must be a text that tells the model what the tool does');
  if (!isObject(parameters) || parameters['type'] !== 'object')
    throw new Error("parameters must be a JSON Schema with type: 'object'");
  if (typeof execute !== 'function') throw new Error('execute must be a function');
  const tool = exported as unknown as DropInTool;
  return {
    ...tool,
    name,
    idempotent: tool.idempotent === true,
    async execute(args, context) {
      const result = await tool.execute(args, context);
      return typeof result === 'string' ? success(result) : result;
    },
  };
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
