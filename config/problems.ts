// What a wrong setting looks like to the operator: file, key, what was found, what is allowed. A secret is never shown.
import type { z } from 'zod';
import { AppError } from '../src/domain/errors.ts';
import { joinPath, type Path } from './interpolate.ts';
import { isMap, valueAt } from './merge.ts';

export interface Problem {
  /** File and line, or the environment variable. */
  where: string;
  /** Dotted key; empty for a whole file. */
  path: string;
  found: string;
  allowed: string;
}

/** All that is wrong, at once. */
export class ConfigError extends AppError {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    const lines = problems.map(({ where, path, found, allowed }) =>
      [`  ${where}`, path && `    ${path}`, `    found:   ${found}`, `    allowed: ${allowed}`]
        .filter(Boolean)
        .join('\n'),
    );
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
    super('config_invalid', `The configuration is not valid (${count}):\n${lines.join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

export type SchemaNode = z.core.JSONSchema.BaseSchema;

interface Context {
  schema: SchemaNode;
  /** The merged tree that was checked. */
  tree: unknown;
  replaced: ReadonlyMap<string, Path>;
  where(path: Path): string;
}

/** One zod issue becomes one problem, or one for each unknown key. */
export function describeIssue(issue: z.core.$ZodIssue, context: Context): Problem[] {
  const path = issue.path.filter((key) => typeof key !== 'symbol');
  const node = nodeAt(context.schema, context.tree, path);
  if (issue.code === 'unrecognized_keys') {
    const known = Object.keys(node?.properties ?? {});
    return issue.keys.map((key) => ({
      where: context.where([...path, key]),
      path: joinPath([...path, key]),
      found: `the unknown key "${key}"`,
      allowed: MOVED.get(joinPath([...path, key])) ?? allowedKeys(key, known),
    }));
  }
  return [
    {
      where: context.where(path),
      path: joinPath(path),
      found: show(valueAt(context.tree, path), path, node, context.replaced),
      allowed: node ? describeNode(node) : issue.message,
    },
  ];
}

/** Keys of earlier versions, and what took their place. */
const MOVED = new Map([
  ['tools.admins', 'the same people as channels.<account>.admins, each by the id without "<account>:"'],
]);

function allowedKeys(key: string, known: string[]): string {
  const near = nearest(key, known);
  const all = known.join(', ');
  return near ? `${near}? The keys here are: ${all}` : all;
}

/** The candidate that a typo most likely meant, if any is near enough. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const ranked = candidates
    .map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  return best && best.distance <= Math.max(2, Math.floor(word.length / 3)) ? best.candidate : undefined;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, substitution));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

const SECRET_KEY = /(?:^|_)(?:secrets?|token|password|api_keys?|headers|body|url)$/i;

function show(
  value: unknown,
  path: Path,
  node: SchemaNode | undefined,
  replaced: ReadonlyMap<string, Path>,
): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'an empty value';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  if (path.some((key) => typeof key === 'string' && SECRET_KEY.test(key)))
    return `a ${typeof value} (not shown)`;
  const literal = typeof value === 'number' ? `the number ${value}` : JSON.stringify(value);
  const shown = typeof value === 'string' ? showText(value, node) : literal;
  return replaced.has(joinPath(path)) ? `${shown}, from the environment` : shown;
}

/** A text where a map or list belongs may well be a key that slipped one level; so may anything long. */
export function showText(text: string, node?: SchemaNode): string {
  const misplaced = node?.type === 'object' || node?.type === 'array' || node?.oneOf !== undefined;
  const keyLike = text.length > 32 || /^(?:sk-|whsec_|xox|gh[ps]_|AKIA)/.test(text);
  return misplaced || keyLike ? 'a text (not shown)' : `the text "${text}"`;
}

/** Walks the JSON Schema along a path; a union is entered through the branch that the value's `type` chooses. */
export function nodeAt(schema: SchemaNode, tree: unknown, path: Path): SchemaNode | undefined {
  let node: SchemaNode | undefined = branch(schema, tree);
  for (const [index, key] of path.entries()) {
    const child: unknown =
      typeof key === 'number' ? node?.items : (node?.properties?.[key] ?? node?.additionalProperties);
    if (isNode(child)) node = branch(child, valueAt(tree, path.slice(0, index + 1)));
    else if (key === 'type' && node?.oneOf) return { enum: kinds(node) };
    else return undefined;
  }
  return node;
}

const isNode = (value: unknown): value is SchemaNode => isMap(value);

function branch(node: SchemaNode, value: unknown): SchemaNode {
  if (!isMap(value)) return node;
  return node.oneOf?.find((option) => kindOf(option) === value['type']) ?? node;
}

function kindOf(option: SchemaNode): SchemaNode['const'] {
  const type = option.properties?.['type'];
  return isNode(type) ? type.const : undefined;
}

const kinds = (node: SchemaNode) => (node.oneOf ?? []).map(kindOf).filter((kind) => kind !== undefined);

function describeNode(node: SchemaNode): string {
  if (node.const !== undefined) return JSON.stringify(node.const);
  if (node.enum) return `one of ${node.enum.join(', ')}`;
  if (node.oneOf) return `a map whose type is one of ${kinds(node).join(', ')}`;
  if (node.anyOf) return node.anyOf.map(describeNode).join(', or ');
  if (node.type === 'integer' || node.type === 'number') return describeNumber(node);
  if (node.type === 'boolean') return 'true or false';
  if (node.type === 'string') return node.pattern ? `a text that matches ${node.pattern}` : 'a text';
  if (node.type === 'array')
    return isNode(node.items) ? `a list, each item ${describeNode(node.items)}` : 'a list';
  if (node.type === 'object') {
    const keys = Object.keys(node.properties ?? {});
    return keys.length > 0 ? `a map with the keys ${keys.join(', ')}` : 'a map';
  }
  return 'any value';
}

function describeNumber(node: SchemaNode): string {
  const integer = node.type === 'integer';
  const noun = integer ? 'a whole number' : 'a number';
  const top = node.maximum === Number.MAX_SAFE_INTEGER ? undefined : node.maximum;
  const bottom =
    node.minimum ??
    (integer && typeof node.exclusiveMinimum === 'number' ? node.exclusiveMinimum + 1 : undefined);
  if (bottom !== undefined && top !== undefined) return `${noun} from ${bottom} to ${top}`;
  if (bottom !== undefined) return `${noun}, ${bottom} or more`;
  if (node.exclusiveMinimum !== undefined) return `${noun} above ${node.exclusiveMinimum}`;
  return noun;
}
