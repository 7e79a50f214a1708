// Arguments of a tool call: text → object, or an error that the model can act on; then the tool's schema.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseArguments } from '../../src/agent/arguments.ts';
import { checkArguments } from '../../src/agent/validate.ts';
import type { StopReason } from '../../src/domain/messages.ts';
import { tool } from '../fakes/agent.ts';

interface Case {
  name: string;
  text: string;
  finish?: StopReason;
  expect?: Record<string, unknown>;
  error?: 'truncated' | 'invalid';
}

const fixture = JSON.parse(
  readFileSync(new URL('../fixtures/llm/tool-arguments.json', import.meta.url), 'utf8'),
) as { cases: Case[] };

const more: Case[] = [
  { name: 'white space only', text: ' \n', expect: {} },
  { name: 'unquoted keys', text: '{x: 1, y: "two"}', expect: { x: 1, y: 'two' } },
  { name: 'in a Markdown fence', text: '```json\n{"x":1}\n```', expect: { x: 1 } },
  { name: 'a raw tab and a carriage return', text: '{"t":"a\tb\rc"}', expect: { t: 'a\tb\rc' } },
  { name: 'a Windows path', text: String.raw`{"p":"C:\Users\me"}`, expect: { p: String.raw`C:\Users\me` } },
  { name: 'valid escapes stay', text: String.raw`{"p":"a\nb\u4e2d\d"}`, expect: { p: 'a\nb中\\d' } },
  { name: 'an apostrophe in double quotes', text: `{"t":"it's",}`, expect: { t: "it's" } },
  { name: 'an apostrophe in single quotes', text: `{'t': 'it\\'s'}`, expect: { t: "it's" } },
  { name: 'braces within strings', text: '{"t":"}{",}', expect: { t: '}{' } },
  { name: 'the same object three times, on lines', text: '{"x":1}\n{"x":1}\n{"x":1}', expect: { x: 1 } },
  { name: 'the same object twice, one needs repair', text: '{"x":1}{"x":1,}', expect: { x: 1 } },
  { name: 'double-encoded and empty', text: '""', expect: {} },
  { name: 'double-encoded and cut', text: JSON.stringify('{"x":"ab'), error: 'truncated' },
  { name: 'encoded three times', text: JSON.stringify(JSON.stringify('{"x":1}')), error: 'invalid' },
  { name: 'null', text: 'null', error: 'invalid' },
  { name: 'a number', text: '5', error: 'invalid' },
  { name: 'cut after a comma', text: '{"a":1,', error: 'truncated' },
  { name: 'cut after a colon', text: '{"a":', error: 'truncated' },
  { name: 'cut within a key', text: '{"pat', error: 'truncated' },
  { name: 'cut within an escape', text: '{"a":"x\\', error: 'truncated' },
  { name: 'cut in single quotes', text: "{'a': 'it", error: 'truncated' },
  { name: 'not JSON, and the output limit was reached', text: '{x:1}', finish: 'length', error: 'truncated' },
  { name: 'an object and prose behind it', text: '{"x":1} as you asked', error: 'invalid' },
  { name: 'nested too deep to parse', text: '['.repeat(200_000), error: 'truncated' },
];

describe('parseArguments', () => {
  it.each([...fixture.cases, ...more])('$name', ({ text, finish = 'tool_use', expect: wanted, error }) => {
    const parsed = parseArguments(text, finish);
    if (error) expect(parsed).toMatchObject({ ok: false, reason: error });
    else expect(parsed).toMatchObject({ ok: true, args: wanted });
  });

  it('shows the model the start of what it sent', () => {
    const parsed = parseArguments(`nonsense ${'x'.repeat(1_000)}`, 'tool_use');
    expect(parsed).toMatchObject({
      ok: false,
      message: expect.stringMatching(/They were: nonsense x{50,}…$/u),
    });
    expect(!parsed.ok && parsed.message.length).toBeLessThan(400);
  });

  it('takes time in proportion to the length, whatever the text', () => {
    const started = performance.now();
    for (const text of [
      '"'.repeat(99_999),
      `{"a":"${'\\'.repeat(99_999)}`,
      '{'.repeat(99_999),
      `'${"'".repeat(99_999)}`,
    ]) {
      expect(parseArguments(text, 'tool_use').ok).toBe(false);
    }
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});

describe('checkArguments', () => {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: {
      path: { type: 'string' },
      lines: { type: 'integer' },
      all: { type: 'boolean' },
      mode: { enum: ['read', 'write'] },
    },
    required: ['path'],
    additionalProperties: false,
  };
  const reader = tool('read', undefined, { parameters: schema });

  it.each([
    ['valid', { path: 'a', lines: 3 }, { path: 'a', lines: 3 }],
    ['a number as text', { path: 'a', lines: '3' }, { path: 'a', lines: 3 }],
    ['a boolean as text', { path: 'a', all: 'true' }, { path: 'a', all: true }],
    ['a text as number', { path: 5 }, { path: '5' }],
    ['null for what is left out', { path: 'a', lines: null, mode: null }, { path: 'a' }],
  ])('takes %s', (_name, args, wanted) => {
    const before = structuredClone(args);
    expect(checkArguments(reader, args, false)).toEqual({ ok: true, args: wanted });
    expect(args).toEqual(before);
  });

  it.each([
    ['a missing key', { lines: 1 }, "must have required property 'path'"],
    ['an unknown key', { path: 'a', size: 1 }, 'must NOT have additional properties: "size"'],
    ['a wrong type', { path: 'a', lines: 'many' }, 'lines must be integer'],
    [
      'a value that is not allowed',
      { path: 'a', mode: 'move' },
      'mode must be equal to one of the allowed values: ["read","write"]',
    ],
    ['null for what is required', { path: null, lines: 'x' }, 'path must be string'],
  ])('refuses %s and says why', (_name, args, message) => {
    expect(checkArguments(reader, args, false)).toMatchObject({
      ok: false,
      message: expect.stringContaining(message),
    });
  });

  it('refuses keys that a repair may have made up', () => {
    const open = tool('say', undefined, { parameters: { type: 'object', properties: { text: {} } } });
    expect(checkArguments(open, { text: 'he said', ok: 'there' }, true)).toMatchObject({ ok: false });
    expect(checkArguments(open, { text: 'he said', ok: 'there' }, false)).toMatchObject({ ok: true });
  });

  it('lets arguments pass unchecked if the schema itself is unusable, and says so', () => {
    const broken = tool('odd', undefined, {
      parameters: { type: 'object', properties: { a: { $ref: '#/nowhere' } } },
    });
    expect(checkArguments(broken, { a: 1 }, false)).toEqual({
      ok: true,
      args: { a: 1 },
      unchecked: expect.stringContaining('nowhere'),
    });
  });

  it.each(['draft-07', 'draft-04'])('takes schemas of %s', (draft) => {
    const old = tool('old', undefined, {
      parameters: { $schema: `http://json-schema.org/${draft}/schema#`, type: 'object', required: ['a'] },
    });
    expect(checkArguments(old, { a: 1 }, false)).toEqual({ ok: true, args: { a: 1 } });
    expect(checkArguments(old, {}, false).ok).toBe(false);
  });
});
