// Recorded shapes of streams (test/fixtures/llm), replayed through the real clients and SDKs.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readFileSync } from 'node:fs';
import { createAnthropicClient } from '../../src/models/anthropic/client.ts';
import { createOpenAIClient } from '../../src/models/openai/client.ts';
import { createToolCalls } from '../../src/models/openai/tool-calls.ts';
import { resolveEntry } from '../../src/models/settings.ts';
import type { ModelSettings } from '../../config/schema.ts';
import { callsIn, collect, fakeLog, request, textIn } from '../fakes/models.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';

type Json = Record<string, unknown>;

interface Case {
  name: string;
  who: string;
  chunks?: Json[];
  events?: Json[];
  unnamed?: boolean;
  flags?: ModelSettings['flags'];
  context_window?: number;
  text?: string;
  thinking?: string;
  field?: string;
  signature?: string;
  redacted?: string;
  details?: Json[];
  calls?: [string, string, string][];
  extra?: Json;
  stop?: string;
  usage?: [number, number, number];
  error?: string;
}

const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../fixtures/llm/${name}.json`, import.meta.url), 'utf8'));

let server: ModelServer;
beforeAll(async () => {
  server = await startModelServer();
});
afterAll(() => server.close());

const clients = {
  openai: ({ flags, context_window }: Case) =>
    createOpenAIClient(
      resolveEntry('main', {
        provider: 'openai',
        model: 'm',
        base_url: server.openaiUrl,
        flags: flags ?? {},
        context_window: context_window ?? 0,
      }),
      { log: fakeLog() },
    ),
  anthropic: () =>
    createAnthropicClient(resolveEntry('main', { provider: 'anthropic', model: 'm', base_url: server.url })),
};

const sse = (events: Json[]): string => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

async function replay(vendor: 'openai' | 'anthropic', shape: Case) {
  const events = shape.chunks ?? shape.events ?? [];
  server.enqueue(shape.unnamed ? { raw: sse(events) } : { events });
  const result = await collect(clients[vendor](shape), request({ apiKey: 'key' }));
  const { end } = result;
  if (shape.error !== undefined) {
    expect(end).toMatchObject({ type: 'failed', stop: 'error', error: { kind: shape.error } });
    expect(textIn(end)).toBe(shape.text ?? '');
    return;
  }
  expect(end).toMatchObject({ type: 'done', stop: shape.stop });
  expect({ shown: result.text, stored: textIn(end) }).toEqual({
    shown: shape.text ?? '',
    stored: shape.text ?? '',
  });
  const calls = callsIn(end);
  const ids = calls.map((call) => call.id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.every((id) => id !== '')).toBe(true);
  expect(
    calls.map((call, n) => [shape.calls?.[n]?.[0] === '*' ? '*' : call.id, call.name, call.arguments]),
  ).toEqual(shape.calls ?? []);
  if (shape.extra) expect(calls[0]?.extra).toEqual(shape.extra);
  const thoughts = end.content.filter((block) => block.type === 'thinking');
  expect(thoughts.map((block) => block.thinking).join('')).toBe(shape.thinking ?? '');
  expect(result.thinking).toBe(shape.thinking ?? '');
  for (const block of thoughts) expect(block.model).toBe('m');
  if (shape.field) expect(thoughts[0]?.field).toBe(shape.field);
  if (shape.signature) expect(thoughts[0]?.signature).toBe(shape.signature);
  if (shape.redacted) expect(thoughts[0]?.redacted).toBe(shape.redacted);
  if (shape.details) {
    const kept = thoughts.find((block) => block.field === 'reasoning_details');
    expect(JSON.parse(kept?.signature ?? 'null')).toEqual(shape.details);
  }
  if (shape.usage) {
    const [input, output, cached] = shape.usage;
    expect(end.usage).toEqual({ input, output, cached });
  }
}

describe('openai streams', () => {
  const { cases } = fixture('openai-streams') as { cases: Case[] };
  it.each(cases.map((shape) => [shape.name, shape.who, shape] as const))('%s (%s)', (_, __, shape) =>
    replay('openai', shape),
  );
});

describe('anthropic streams', () => {
  const { cases } = fixture('anthropic-streams') as { cases: Case[] };
  it.each(cases.map((shape) => [shape.name, shape.who, shape] as const))('%s (%s)', (_, __, shape) =>
    replay('anthropic', shape),
  );
});

describe('tool calls from deltas', () => {
  interface DeltaCase {
    name: string;
    deltas: Json[];
    calls: [string, string, Json][];
  }
  const { cases } = fixture('tool-call-streams') as { cases: DeltaCase[] };
  it.each(cases.map((shape) => [shape.name, shape] as const))('%s', (_, { deltas, calls }) => {
    const collected = createToolCalls();
    for (const delta of deltas) collected.add(delta);
    const made = collected.finish(() => false);
    expect(new Set(made.map((call) => call.id)).size).toBe(made.length);
    expect(
      made.map((call, n) => [
        calls[n]?.[0] === '*' ? '*' : call.id,
        call.name,
        JSON.parse(call.arguments || '{}') as unknown,
      ]),
    ).toEqual(calls);
  });

  it('replaces an id that the history has already', () => {
    const collected = createToolCalls();
    collected.add({ index: 0, id: 'call_0', function: { name: 'now', arguments: '{}' } });
    const [call] = collected.finish((id) => id === 'call_0');
    expect(call?.id).toMatch(/^call_[0-9a-f]{24}$/);
  });
});

describe('a whole answer as JSON, from a gateway that ignores stream', () => {
  it('openai', async () => {
    server.enqueue({
      raw: JSON.stringify({
        choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'answer' } }],
        usage: { prompt_tokens: 3, completion_tokens: 1 },
      }),
      contentType: 'application/json; charset=utf-8',
    });
    const { end } = await collect(clients.openai({ name: '', who: '' }), request({ apiKey: 'key' }));
    expect(end).toMatchObject({ type: 'done', stop: 'stop', usage: { input: 3, output: 1, cached: 0 } });
    expect(textIn(end)).toBe('answer');
  });

  it('anthropic', async () => {
    server.enqueue({
      raw: JSON.stringify({
        type: 'message',
        role: 'assistant',
        content: [
          { type: 'text', text: 'answer' },
          { type: 'tool_use', id: 'a', name: 'now', input: { zone: 'UTC' } },
        ],
        stop_reason: 'tool_use',
        usage: { input_tokens: 3, output_tokens: 1 },
      }),
      contentType: 'application/json',
    });
    const { end } = await collect(clients.anthropic(), request({ apiKey: 'key' }));
    expect(end).toMatchObject({ type: 'done', stop: 'tool_use', usage: { input: 3, output: 1, cached: 0 } });
    expect(callsIn(end)).toEqual([{ type: 'tool_call', id: 'a', name: 'now', arguments: '{"zone":"UTC"}' }]);
  });

  it('events under the name of JSON are still events', async () => {
    const chunks = [{ choices: [{ index: 0, delta: { content: 'answer' }, finish_reason: 'stop' }] }];
    server.enqueue({ raw: `${sse(chunks)}data: [DONE]\n\n`, contentType: 'application/json' });
    const { end } = await collect(clients.openai({ name: '', who: '' }), request({ apiKey: 'key' }));
    expect(textIn(end)).toBe('answer');
  });
});

describe('the end of a stream', () => {
  const chunks = [
    { choices: [{ index: 0, delta: { content: 'answer' } }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  ];

  it.each([
    ['no [DONE]', ''],
    ['[DONE] with something behind it', 'data: [DONE] bye\n\n'],
    ['a comment', ': keep-alive\n\n'],
    ['garbage after the finish', 'data: {"oops\n\n'],
  ])('openai: what the model completed is complete: %s', async (_, tail) => {
    server.enqueue({ raw: sse(chunks) + tail });
    const { end } = await collect(clients.openai({ name: '', who: '' }), request({ apiKey: 'key' }));
    expect(end).toMatchObject({ type: 'done', stop: 'stop' });
    expect(textIn(end)).toBe('answer');
  });

  it('openai: a connection cut after the finish', async () => {
    server.enqueue({ events: chunks, cutAfter: 2 });
    const { end } = await collect(clients.openai({ name: '', who: '' }), request({ apiKey: 'key' }));
    expect(end).toMatchObject({ type: 'done', stop: 'stop' });
  });

  it('anthropic: an error that is only an object under the name of one', async () => {
    server.enqueue({ raw: 'event: error\ndata: {"type":"overloaded_error","message":"Overloaded"}\n\n' });
    const { end } = await collect(clients.anthropic(), request({ apiKey: 'key' }));
    expect(end).toMatchObject({ type: 'failed', error: { kind: 'overloaded', message: 'Overloaded' } });
  });
});

describe.each(['openai', 'anthropic'] as const)('%s: an id that the history has already', (vendor) => {
  it('is replaced', async () => {
    server.enqueue({ calls: [{ id: 'call_0', name: 'now' }] });
    const { end } = await collect(
      clients[vendor]({ name: '', who: '' }),
      request({
        apiKey: 'key',
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'x' }] },
          { role: 'assistant', content: [{ type: 'tool_use', id: 'call_0', name: 'now', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_0', content: 'noon' }] },
        ],
      }),
    );
    const [call] = callsIn(end);
    expect(call?.id).toMatch(/^(?:call|toolu)_[0-9a-f]{24}$/);
  });
});
