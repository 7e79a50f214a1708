// The configuration's JSON Schema, so that editors complete and explain: the shape from zod, the words from the
// comments of default.yaml. `npm run schema` writes it to config/schema.json.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LineCounter, isMap, isScalar, parseDocument, type YAMLMap } from 'yaml';
import { jsonSchema } from './load.ts';
import { nodeAt, type SchemaNode } from './problems.ts';

const DEFAULTS = join(import.meta.dirname, 'default.yaml');

/** A line of an example that is commented out: what can't be on by default, since it needs keys of the operator's own. */
const EXAMPLE = /^ {2}# ( *[a-z_]+:(?: .*)?)$/gm;

export interface Reference {
  /** Dotted key → the comment on its line. */
  comments: Map<string, string | undefined>;
  /** The values, as written. */
  tree: unknown;
}

/** What default.yaml says of every key, its examples included. */
export function readReference(): Reference {
  const text = readFileSync(DEFAULTS, 'utf8').replaceAll(EXAMPLE, '  $1');
  const lines = text.split('\n');
  const counter = new LineCounter();
  const comments: Reference['comments'] = new Map();
  const visit = (map: YAMLMap, path: string[]): void => {
    for (const { key, value } of map.items) {
      if (!isScalar(key) || !key.range) continue;
      const here = [...path, String(key.value)];
      const line = lines[counter.linePos(key.range[0]).line - 1] ?? '';
      comments.set(here.join('.'), / # (.*)$/.exec(line)?.[1]);
      if (isMap(value)) visit(value, here);
    }
  };
  const document = parseDocument(text, { lineCounter: counter });
  if (isMap(document.contents)) visit(document.contents, []);
  return { comments, tree: document.toJS() };
}

/** The text of config/schema.json. */
export function editorSchema(): string {
  const schema = jsonSchema();
  const { comments, tree } = readReference();
  for (const [key, comment] of comments) {
    const path = key.split('.');
    const node = comment && isSetting(path) ? nodeAt(schema, tree, path) : undefined;
    if (node) node.description ??= comment;
  }
  return `${JSON.stringify({ title: 'Lanekeeper configuration', ...schema }, allowReference, 2)}\n`;
}

/** An entry's own name (models.openai, channels.web) is the operator's: its comment describes no setting. */
const isSetting = ([section, ...rest]: string[]): boolean =>
  !((section === 'models' || section === 'channels') && rest.length === 1);

/** Where a number or a boolean belongs, `${NAME}` may stand as well. */
function allowReference(key: string, value: unknown): unknown {
  if (key !== 'properties' || typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, node]) => [name, orReference(node)]));
}

function orReference(node: SchemaNode): SchemaNode {
  if (node.type !== 'integer' && node.type !== 'number' && node.type !== 'boolean') return node;
  const { description, default: fallback, ...literal } = node;
  return {
    ...(description === undefined ? {} : { description }),
    ...(fallback === undefined ? {} : { default: fallback }),
    anyOf: [literal, { type: 'string', pattern: '\\$\\{' }],
  };
}
