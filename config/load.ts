// Start-up: config/default.yaml, the operator's file over it, the environment over both; checked and typed. The only
// place that reads process.env.
import { existsSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { z } from 'zod';
import { ACCOUNT_NAME } from '../src/domain/conversation.ts';
import { interpolate, joinPath, type Path } from './interpolate.ts';
import { environmentLayer, readYaml, type Layer } from './layer.ts';
import { overlay, valueAt, withValue } from './merge.ts';
import {
  ConfigError,
  describeIssue,
  nearest,
  nodeAt,
  showText,
  type Problem,
  type SchemaNode,
} from './problems.ts';
import { configSchema, type Config } from './schema.ts';

export interface LoadOptions {
  /** Default: the process's own. */
  env?: NodeJS.ProcessEnv;
  /** Where relative paths start, and where config/local.yaml is looked for. Default: the working directory. */
  cwd?: string;
}

/** Where the system looks for programs. */
export const searchPath = ({ env = process.env }: LoadOptions): string => env['PATH'] ?? '';

export interface LoadedConfig {
  config: Config;
  /** Files that were read, or would be if they existed: what to watch. */
  files: string[];
}

const CONFIG_FOLDER = import.meta.dirname;

/** Folder of the system prompt's sources. */
export const PROMPT_FOLDER = join(CONFIG_FOLDER, 'prompt');

/** Throws ConfigError with every problem found. */
export function loadConfig(options: LoadOptions = {}): LoadedConfig {
  const env = options.env ?? process.env;
  const cwd = options.cwd ?? process.cwd();
  const problems: Problem[] = [];
  const replaced = new Map<string, Path>();
  const layers: Layer[] = [];

  const files = chooseFiles(env, cwd);
  for (const { file, optional } of files) {
    if (optional && !existsSync(file)) continue;
    const read = readYaml(file, displayName(file, cwd));
    const filled = interpolate(read.layer.value, env);
    problems.push(...read.problems);
    for (const { path, found, allowed } of filled.problems) {
      problems.push({ where: read.layer.where(path), path: joinPath(path), found, allowed });
    }
    for (const [key, path] of filled.replaced) replaced.set(key, path);
    layers.push({ ...read.layer, value: filled.value });
  }
  const environment = environmentLayer(env);
  for (const [key, path] of environment.replaced) replaced.set(key, path);
  layers.push(environment.layer);

  let merged: unknown = {};
  for (const layer of layers) merged = overlay(merged, layer.value);
  const checked = check(merged, replaced, layers);
  problems.push(...checked.problems);
  if (!checked.config || problems.length > 0) throw new ConfigError(dropEchoes(problems));
  return { config: checked.config, files: files.map(({ file }) => file) };
}

function chooseFiles(env: NodeJS.ProcessEnv, cwd: string): { file: string; optional: boolean }[] {
  const defaults = { file: join(CONFIG_FOLDER, 'default.yaml'), optional: false };
  const named = env['LANEKEEPER_CONFIG'];
  if (named) return [defaults, { file: resolve(cwd, named), optional: false }];
  return [defaults, { file: join(cwd, 'config', 'local.yaml'), optional: true }];
}

function displayName(file: string, cwd: string): string {
  if (dirname(file) === CONFIG_FOLDER) return join('config', relative(CONFIG_FOLDER, file));
  const short = relative(cwd, file);
  return short.startsWith('..') ? file : short;
}

/**
 * One problem a key, or a line: a variable that isn't set leaves an empty text, of which the schema complains as well,
 * and one slip in YAML is often found several times.
 */
function dropEchoes(problems: Problem[]): Problem[] {
  const seen = new Set<string>();
  return problems.filter(({ path, where }) => {
    const key = path || where;
    return !seen.has(key) && Boolean(seen.add(key));
  });
}

function check(tree: unknown, replaced: ReadonlyMap<string, Path>, layers: Layer[]): Checked {
  const where = (path: Path): string => {
    const holds = (length: number) =>
      layers.findLast((layer) => valueAt(layer.value, path.slice(0, length)) !== undefined);
    return (holds(path.length) ?? holds(path.length - 1))?.where(path) ?? '';
  };
  // The JSON Schema tells what a text from the environment stands for, and what is allowed: only needed now and then.
  let parsed = configSchema.safeParse(tree);
  if (parsed.success) return { config: parsed.data, problems: crossCheck(tree, where) };
  const schema = jsonSchema();
  const typed = readTexts(tree, replaced, schema);
  parsed = configSchema.safeParse(typed);
  if (parsed.success) return { config: parsed.data, problems: crossCheck(tree, where) };
  const context = { schema, tree: typed, replaced, where };
  const problems = parsed.error.issues.flatMap((issue) => describeIssue(issue, context));
  return { problems: [...problems, ...crossCheck(tree, where)] };
}

interface Checked {
  config?: Config;
  problems: Problem[];
}

/** The schema as JSON Schema of what may be written in a file. */
export function jsonSchema(): SchemaNode {
  return z.toJSONSchema(configSchema, { io: 'input' });
}

/** Texts that came from the environment become the number or boolean that the schema wants there. */
function readTexts(tree: unknown, replaced: ReadonlyMap<string, Path>, schema: SchemaNode): unknown {
  let result = tree;
  for (const path of replaced.values()) {
    const value = valueAt(result, path);
    if (typeof value !== 'string') continue;
    const node = nodeAt(schema, result, path);
    const types = new Set([node, ...(node?.anyOf ?? [])].map((option) => option?.type));
    if ((types.has('number') || types.has('integer')) && /^-?\d+(?:\.\d+)?$/.test(value.trim())) {
      result = withValue(result, path, Number(value));
    } else if (types.has('boolean') && /^(?:true|false)$/.test(value.trim())) {
      result = withValue(result, path, value.trim() === 'true');
    }
  }
  return result;
}

/** What the schema can't say: names that must refer to something. On the tree, so that it runs beside other problems. */
function crossCheck(tree: unknown, where: (path: Path) => string): Problem[] {
  const problems: Problem[] = [];
  const report = (path: Path, found: string, allowed: string) =>
    problems.push({ where: where(path), path: joinPath(path), found, allowed });
  const models = entries(valueAt(tree, ['models']));
  const names = models.map(([name]) => name);
  const mustExist = (name: unknown, path: Path, known: string[]) => {
    if (typeof name !== 'string' || known.includes(name)) return;
    const near = nearest(name, known);
    report(path, showText(name), `${near ? `${near}? ` : ''}one of ${known.join(', ')}`);
  };
  mustExist(valueAt(tree, ['model']), ['model'], ['auto', ...names]);
  for (const [name, model] of models) {
    for (const [index, fallback] of entries(valueAt(model, ['fallbacks']))) {
      mustExist(fallback, ['models', name, 'fallbacks', Number(index)], names);
    }
  }
  const accountName =
    'a name of up to 64 lower-case letters, digits, _ and -, starting with a letter or digit';
  for (const [account] of entries(valueAt(tree, ['channels']))) {
    if (!ACCOUNT_NAME.test(account)) report(['channels', account], `the name "${account}"`, accountName);
  }
  const url = valueAt(tree, ['storage', 'url']);
  if (typeof url === 'string' && url && !/^rediss?(-cluster|-sentinel)?:\/\//i.test(url)) {
    report(
      ['storage', 'url'],
      'another kind of URL (not shown)',
      'redis://…, redis-cluster://… or redis-sentinel://… (rediss… for TLS); empty for embedded storage',
    );
  }
  return problems;
}

const entries = (value: unknown): [string, unknown][] =>
  typeof value === 'object' && value !== null ? Object.entries(value) : [];
