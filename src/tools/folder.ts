// Tools of the operator's own: each .ts, .js or .mjs file in `tools.folder` is one, its default export the tool. Read at
// the start and on SIGHUP; a bad file is reported by name, and the others are tools all the same.
import { readdir, stat } from 'node:fs/promises';
import { basename, extname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Logger } from '../ports/log.ts';
import type { Tool } from '../ports/tool.ts';
import { toTool } from './drop-in.ts';
import type { CheckArguments } from './find-tools.ts';
import type { SourceTool, ToolSource } from './source.ts';
import { tryImports } from './trial.ts';

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
    const files = await filesIn(folder, wrong);
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
      reloading = reloading.then(read, read);
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

/** What can't be looked at goes to `wrong`. */
async function filesIn(folder: string, wrong: Map<string, string>): Promise<File[]> {
  const names = await readdir(resolve(folder)).catch((error: unknown) => {
    wrong.set(folder, `the folder can't be read: ${reasonOf(error)}`);
    return [];
  });
  const files: File[] = [];
  for (const name of names.filter(isTool).sort()) {
    const path = join(resolve(folder), name);
    try {
      const { mtimeMs, size } = await stat(path);
      files.push({ name, url: pathToFileURL(path).href, version: `${mtimeMs}-${size}` });
    } catch (error) {
      wrong.set(name, reasonOf(error));
    }
  }
  return files;
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

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
