// The configuration's JSON Schema, so that editors complete and explain: the shape from zod, the words from the
// comments of default.yaml. `npm run schema` writes it to config/schema.json.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LineCounter, isMap, isScalar, parseDocument, type YAMLMap } from 'yaml';
import { jsonSchema } from './load.ts';
import { nodeAt, type SchemaNode } from './problems.ts';

const DEFAULTS = join(import.meta.dirname, 'default.yaml');

/** Every key of default.yaml, dotted, with the comment on its line. */
export function readComments(): Map<string, string | undefined> {
  const text = readFileSync(DEFAULTS, 'utf8');
  const lines = text.split('\n');
  const counter = new LineCounter();
  const comments = new Map<string, string | undefined>();
  const visit = (map: YAMLMap, path: string[]): void => {
    for (const { key, value } of map.items) {
      if (!isScalar(key) || !key.range) continue;
      const here = [...path, String(key.value)];
      const line = lines[counter.linePos(key.range[0]).line - 1] ?? '';
      comments.set(here.join('.'), / # (.*)$/.exec(line)?.[1]);
      if (isMap(value)) visit(value, here);
    }
  };
  const { contents } = parseDocument(text, { lineCounter: counter });
  if (isMap(contents)) visit(contents, []);
  return comments;
}

/** The text of config/schema.json. */
export function editorSchema(): string {
  const schema = jsonSchema();
  // A union of channels is entered by the `type` that the default file writes under that account.
  const tree = { channels: { web: { type: 'web' }, webhook: { type: 'webhook' } } };
  for (const [key, comment] of readComments()) {
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
