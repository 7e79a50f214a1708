// Properties: how a stream is cut into pieces makes no difference, and no chunk, however odd, breaks a reader.
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createAnthropicStream } from '../../src/models/anthropic/stream.ts';
import { CallError } from '../../src/models/errors.ts';
import { createOpenAIStream } from '../../src/models/openai/stream.ts';
import { createReply } from '../../src/models/reply.ts';
import { createEventParser } from '../../src/models/sse.ts';
import { createThinkParser, type ThinkPart } from '../../src/models/think-tags.ts';

/** Text and thinking as they end up; a void makes all text before it thinking. */
function read(parts: ThinkPart[]): { text: string; thinking: string } {
  let text = '';
  let thinking = '';
  for (const part of parts) {
    if (part.type === 'void') [thinking, text] = [thinking + text, ''];
    else if (part.type === 'text') text += part.text;
    else thinking += part.text;
  }
  return { text, thinking };
}

const piece = fc.constantFrom(
  '<think>',
  '</think>',
  '<thought>',
  '</thought>',
  '<',
  '</',
  '◁think▷',
  '◁/think▷',
  '`',
  '```',
  '\n',
  ' ',
  'a',
  'word',
  '"',
  '世',
  '😀',
);
const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));

describe('think tags', () => {
  it('mean the same however the stream is cut', () => {
    fc.assert(
      fc.property(text, fc.array(fc.nat(), { maxLength: 8 }), (whole, seeds) => {
        const cuts = [...new Set(seeds.map((seed) => seed % (whole.length + 1)))].sort((a, b) => a - b);
        const cut = createThinkParser();
        const parts = [0, ...cuts].flatMap((from, n) => cut.push(whole.slice(from, cuts[n] ?? whole.length)));
        parts.push(...cut.end());
        const once = createThinkParser();
        expect(read(parts)).toEqual(read([...once.push(whole), ...once.end()]));
      }),
      { numRuns: 2_000 },
    );
  });

  it('lose nothing but tags and the white space around thinking', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), fc.string({ maxLength: 40 }), (thought, answer) => {
        fc.pre(!/[<◁`]/.test(thought + answer));
        const parser = createThinkParser();
        const parts = [...parser.push(`<think>${thought}</think>${answer}`), ...parser.end()];
        expect(read(parts)).toEqual({ thinking: thought.trimStart(), text: answer.trimStart() });
      }),
    );
  });
});

/** Anything, with the names that a stream has in most places. */
const odd = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.constantFrom<unknown>(null, undefined, '', 'x', 'stop', 'length', 0, 1, -1, true, '{"a":1}', []),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(
      fc.constantFrom(
        'choices',
        'delta',
        'message',
        'content',
        'tool_calls',
        'function',
        'function_call',
        'name',
        'arguments',
        'id',
        'index',
        'finish_reason',
        'usage',
        'prompt_tokens',
        'prompt_tokens_details',
        'reasoning',
        'reasoning_details',
        'text',
        'type',
        'thinking',
        'content_block',
        'partial_json',
        'signature',
        'stop_reason',
        'extra_content',
        'refusal',
      ),
      tie('value'),
      { maxKeys: 5 },
    ),
  ),
})).value;

const shaped = fc.oneof(
  odd,
  odd.map((delta) => ({ choices: [{ delta }] })),
  odd.map((call) => ({ choices: [{ delta: { tool_calls: [call] } }] })),
  fc
    .tuple(
      fc.constantFrom(
        'message_start',
        'content_block_start',
        'content_block_delta',
        'message_delta',
        'message',
      ),
      odd,
    )
    .map(([type, value]) => ({
      type,
      index: 0,
      message: value,
      content_block: value,
      delta: value,
      usage: value,
      content: value,
    })),
);

describe('the events of a stream', () => {
  const line = fc.constantFrom(
    'data: a',
    'data:b',
    'data',
    'event: x',
    ': note',
    'id: 1',
    'data: 世😀',
    '',
    '',
    '',
  );
  const stream = fc
    .array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r')), { maxLength: 12 })
    .map((lines) => lines.map((pair) => pair.join('')).join(''));

  it('are the same however the stream is cut, and whatever its line ends', () => {
    fc.assert(
      fc.property(stream, fc.array(fc.nat(), { maxLength: 8 }), (whole, seeds) => {
        const cuts = [...new Set(seeds.map((seed) => seed % (whole.length + 1)))].sort((a, b) => a - b);
        const parse = (pieces: string[]) => {
          const parser = createEventParser();
          const events = [...pieces.flatMap((part) => parser.push(part)), ...parser.end()];
          return events.map(({ event, data }) => [event, data]);
        };
        const once = parse([whole]);
        expect(parse([0, ...cuts].map((from, n) => whole.slice(from, cuts[n] ?? whole.length)))).toEqual(
          once,
        );
        if (!whole.includes('\r')) expect(parse([whole.replaceAll('\n', '\r\n')])).toEqual(once);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('odd chunks', () => {
  it.each(['openai', 'anthropic'] as const)('%s: read what there is, or fail as a call', (vendor) => {
    fc.assert(
      fc.property(fc.array(shaped, { maxLength: 6 }), (chunks) => {
        const reply = createReply({ model: 'm', thinkTags: true });
        const stream =
          vendor === 'openai'
            ? createOpenAIStream({ reply, keepReasoning: true, cumulative: false })
            : createAnthropicStream(reply);
        try {
          for (const chunk of chunks) stream.push(chunk);
        } catch (error) {
          expect(error).toBeInstanceOf(CallError);
        }
        const { content } = stream.finish(() => false);
        for (const block of content) {
          if (block.type === 'text') expect(typeof block.text).toBe('string');
          if (block.type === 'tool_call') {
            expect(block.id).not.toBe('');
            expect(block.name).not.toBe('');
            expect(typeof block.arguments).toBe('string');
          }
        }
        const ids = content.flatMap((block) => (block.type === 'tool_call' ? [block.id] : []));
        expect(new Set(ids).size).toBe(ids.length);
      }),
      { numRuns: 1_500 },
    );
  });
});
