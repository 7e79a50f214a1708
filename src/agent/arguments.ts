// The text of a tool call's arguments → an object, or an error that the model can act on. Truncation is looked for before
// anything is repaired: a repair would complete a cut-off string, and half a file would be written without anyone noticing.
import { jsonrepair } from 'jsonrepair';
import type { StopReason } from '../domain/messages.ts';

export type ParsedArguments =
  /** `repaired`: the text was not JSON, so that what came out is a guess. */
  | { ok: true; args: Record<string, unknown>; repaired: boolean }
  /** `message` is for the model. */
  | { ok: false; reason: 'truncated' | 'invalid'; message: string };

const TRUNCATED: ParsedArguments = {
  ok: false,
  reason: 'truncated',
  message:
    'The arguments of this call were cut off (output limit reached, or a quote or bracket is not closed). ' +
    'Nothing was done. Send less at once: split the content over several calls.',
};

export function parseArguments(text: string, stop: StopReason): ParsedArguments {
  return parse(text.trim(), stop, true);
}

function parse(text: string, stop: StopReason, unwrap: boolean): ParsedArguments {
  if (text === '') return stop === 'length' ? TRUNCATED : { ok: true, args: {}, repaired: false };
  const value = tryParse(text);
  if (value !== undefined) return accept(value, text, stop, unwrap, false);

  const { cut, objects } = structure(text);
  if (cut || stop === 'length') return TRUNCATED;
  if (objects.length > 1) return sameObject(text, objects);
  const clean = escapeStrings(text);
  const repaired = tryParse(clean) ?? tryRepair(clean);
  if (repaired === undefined) return invalid('they are not JSON', text);
  return accept(repaired, text, stop, unwrap, true);
}

function accept(
  value: unknown,
  text: string,
  stop: StopReason,
  unwrap: boolean,
  repaired: boolean,
): ParsedArguments {
  if (isObject(value)) return { ok: true, args: value, repaired };
  if (typeof value === 'string' && unwrap) return parse(value.trim(), stop, false);
  const what = Array.isArray(value) ? 'a list' : value === null ? 'null' : `a ${typeof value}`;
  return invalid(`what came is ${what}`, text);
}

/** Some models send the same object twice; anything else in several parts is not to be guessed at. */
function sameObject(text: string, objects: string[]): ParsedArguments {
  const values = objects.map((object) => {
    const clean = escapeStrings(object);
    return tryParse(object) ?? tryParse(clean) ?? tryRepair(clean);
  });
  const first = values[0];
  const same = new Set(values.map((value) => JSON.stringify(value))).size === 1;
  if (same && isObject(first)) return { ok: true, args: first, repaired: true };
  return invalid('they hold several different objects', text);
}

function invalid(why: string, text: string): ParsedArguments {
  const start = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  return {
    ok: false,
    reason: 'invalid',
    message: `The arguments must be one JSON object, but ${why}. They were: ${start}`,
  };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Not JSON: the caller tries something else.
    return undefined;
  }
}

function tryRepair(text: string): unknown {
  try {
    return JSON.parse(jsonrepair(text)) as unknown;
  } catch {
    // Beyond repair: the caller says so to the model.
    return undefined;
  }
}

/**
 * Quotes and brackets. `cut`: one is not closed (ending in a brace proves nothing: the brace may be inside a string).
 * `objects`: the texts of the outermost objects.
 */
function structure(text: string): { cut: boolean; objects: string[] } {
  const objects: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!;
    if (opensString(text, i)) {
      const end = stringEnd(text, i);
      if (end === -1) return { cut: true, objects };
      i = end;
    } else if (char === '{' || char === '[') {
      if (depth++ === 0) start = i;
    } else if ((char === '}' || char === ']') && depth > 0 && --depth === 0 && text[start] === '{') {
      objects.push(text.slice(start, i + 1));
    }
  }
  return { cut: depth > 0, objects };
}

/** A single quote opens a string only where a key or a value may begin: elsewhere it is an apostrophe. */
function opensString(text: string, index: number): boolean {
  const char = text[index];
  if (char === '"') return true;
  if (char !== "'") return false;
  let before = index - 1;
  while (before >= 0 && ' \t\r\n'.includes(text[before]!)) before--;
  return before < 0 || '{[,:'.includes(text[before]!);
}

/** Index of the quote that closes the string opened at `open`; -1 if none does. */
function stringEnd(text: string, open: number): number {
  const quote = text[open];
  for (let i = open + 1; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === quote) return i;
  }
  return -1;
}

const NAMED_ESCAPES: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Inside strings: raw control characters are escaped, and backslashes that begin no JSON escape are doubled (`\d`). */
function escapeStrings(text: string): string {
  let out = '';
  for (let i = 0; i < text.length; i++) {
    const end = opensString(text, i) ? stringEnd(text, i) : -1;
    if (end === -1) {
      out += text[i]!;
      continue;
    }
    out += text[i]! + escapeString(text.slice(i + 1, end)) + text[end]!;
    i = end;
  }
  return out;
}

// oxlint-disable-next-line no-control-regex -- raw control characters are what is looked for
const CONTROL = /[\u0000-\u001f]/gu;

function escapeString(body: string): string {
  return (
    body
      // An escape as a whole, or a lone backslash; "\'" is no JSON escape but means what it says in single quotes.
      .replaceAll(/\\(?:["'\\/bfnrt]|u[0-9a-fA-F]{4})|\\/gu, (escape) => (escape === '\\' ? '\\\\' : escape))
      .replaceAll(
        CONTROL,
        (char) => NAMED_ESCAPES[char] ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
      )
  );
}
