// Start-up, step 3: a layer is laid over another. Maps merge, everything else replaces.
import { type Path } from './interpolate.ts';

type Tree = Record<string, unknown>;

export const isMap = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Lists replace; an empty value (`agent:` with nothing under it) says nothing. Two maps of another kind (a channel of
 * another type, a model of another provider) replace as well: their settings have nothing in common. Keys of the upper
 * layer come first, so that `model: auto` prefers the operator's own entries.
 */
export function overlay(below: unknown, above: unknown): unknown {
  if (above === null || above === undefined) return below;
  if (!isMap(below) || !isMap(above) || otherKind(below, above)) return above;
  const keys = new Set([...Object.keys(above), ...Object.keys(below)]);
  // fromEntries defines own properties: a key named __proto__ stays a key, and is refused by the schema.
  return Object.fromEntries([...keys].map((key) => [key, overlay(own(below, key), own(above, key))]));
}

function otherKind(below: Tree, above: Tree): boolean {
  return ['type', 'provider'].some(
    (key) => typeof above[key] === 'string' && typeof below[key] === 'string' && above[key] !== below[key],
  );
}

const own = (tree: Tree, key: string): unknown => (Object.hasOwn(tree, key) ? tree[key] : undefined);

export function valueAt(tree: unknown, path: Path): unknown {
  let value = tree;
  for (const key of path) {
    if (Array.isArray(value)) value = value[Number(key)];
    else if (isMap(value)) value = own(value, String(key));
    else return undefined;
  }
  return value;
}

/** A copy of the tree with one value replaced. */
export function withValue(tree: unknown, path: Path, value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (Array.isArray(tree))
    return tree.map((item, index) => (index === Number(key) ? withValue(item, rest, value) : item));
  if (!isMap(tree)) return tree;
  return Object.fromEntries(
    Object.entries(tree).map(([name, item]) => [name, name === key ? withValue(item, rest, value) : item]),
  );
}

/** Paths at which two parsed configurations differ, named as deep as both are maps. */
export function differences(before: unknown, after: unknown, path: Path = []): Path[] {
  if (isMap(before) && isMap(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => differences(own(before, key), own(after, key), [...path, key]));
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [path];
}
