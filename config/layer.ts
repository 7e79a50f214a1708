// Start-up, step 1: one YAML file (or the environment) becomes a layer: plain values, and where each was written.
import { readFileSync } from 'node:fs';
import { LineCounter, isNode, parseDocument, type Document } from 'yaml';
import { joinPath, type Path } from './interpolate.ts';
import { isMap } from './merge.ts';
import type { Problem } from './problems.ts';

export interface Layer {
  value: unknown;
  /** `config/local.yaml:12`, or `environment variable PORT`. */
  where(path: Path): string;
}

// A configuration is written by hand. What is larger is a mistake, and aliases that multiply are an attack on memory.
const MAX_FILE_BYTES = 1_048_576;
const MAX_ALIASES = 50;

const ADVICE: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: 'each key once',
  TAB_AS_INDENT: 'spaces for indentation, not tabs',
  BAD_INDENT: 'the keys of one map at the same indentation',
  BAD_ALIAS: 'an *alias only after its &anchor',
  TAG_RESOLVE_FAILED: 'no tags of your own (!name)',
};

/** Reads one file. `name` is how messages call it. Problems instead of exceptions, so that all are told at once. */
export function readYaml(file: string, name: string): { layer: Layer; problems: Problem[] } {
  const problem = (where: string, found: string, allowed: string) => ({
    layer: { value: {}, where: () => name },
    problems: [{ where, path: '', found, allowed }],
  });
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    return problem(name, `a file that can't be read (${code})`, 'a YAML file that exists and is readable');
  }
  if (Buffer.byteLength(text) > MAX_FILE_BYTES) return problem(name, 'a file over 1 MB', 'a file up to 1 MB');

  const lines = new LineCounter();
  try {
    const document = parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false });
    const wrong = [...document.errors, ...document.warnings];
    if (wrong.length > 0) {
      const problems = wrong.map((error) => ({
        where: `${name}:${lines.linePos(error.pos[0]).line}`,
        path: '',
        // The code only: the parser's message may quote what it stumbled over, and that may be a key.
        found: `text that is not valid YAML (${error.code.toLowerCase().replaceAll('_', ' ')})`,
        allowed:
          ADVICE[error.code] ??
          'YAML 1.2; quotes around texts with special characters, and around ${…} in [ ] or { }',
      }));
      return { layer: { value: {}, where: () => name }, problems };
    }
    const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES }) ?? {};
    if (!isMap(value)) {
      const found = Array.isArray(value) ? 'a list' : 'no keys';
      return problem(
        name,
        found,
        'a map with keys such as server, models, channels; see config/default.yaml',
      );
    }
    return { layer: { value, where: (path) => locate(document, lines, name, path) }, problems: [] };
  } catch {
    return problem(
      name,
      'YAML that expands without bound',
      `at most ${MAX_ALIASES} uses of aliases, and no deep nesting`,
    );
  }
}

function locate(document: Document, lines: LineCounter, name: string, path: Path): string {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return `${name}:${lines.linePos(node.range[0]).line}`;
  }
  return name;
}

/** Environment variables that set something directly, above every file. An empty variable counts as unset. */
export const ENVIRONMENT: Readonly<Record<string, Path>> = {
  HOST: ['server', 'host'],
  PORT: ['server', 'port'],
  ADMIN_TOKEN: ['server', 'admin_token'],
  LOG_LEVEL: ['server', 'log_level'],
  REDIS_URL: ['storage', 'url'],
  LANEKEEPER_DATA_DIR: ['storage', 'data_dir'],
};

export function environmentLayer(env: NodeJS.ProcessEnv): { layer: Layer; replaced: Map<string, Path> } {
  const value: Record<string, Record<string, string>> = {};
  const names = new Map<string, string>();
  const replaced = new Map<string, Path>();
  for (const [name, path] of Object.entries(ENVIRONMENT)) {
    const given = env[name];
    const [section, key] = path;
    if (!given || typeof section !== 'string' || typeof key !== 'string') continue;
    value[section] = { ...value[section], [key]: given };
    names.set(joinPath(path), name);
    replaced.set(joinPath(path), path);
  }
  return {
    layer: { value, where: (path) => `environment variable ${names.get(joinPath(path)) ?? ''}`.trimEnd() },
    replaced,
  };
}
