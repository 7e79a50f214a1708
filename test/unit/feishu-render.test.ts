// Feishu's contents, both ways: platform messages to text with names, and Markdown to posts, cards and parts that fit.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readContent } from '../../channels/feishu/content.ts';
import { cardJson, partsOf, renderPart, renderPlain } from '../../channels/feishu/render.ts';
import { splitMarkdown } from '../../channels/shared/split.ts';

const mentions = [
  { key: '@_user_1', name: 'Lane', openId: 'ou_bot' },
  { key: '@_user_2', name: 'Bob', openId: 'ou_bob' },
  { key: '@_user_10', name: 'Ten', openId: 'ou_ten' },
];
const text = (content: unknown, type = 'text') =>
  readContent(type, JSON.stringify(content), mentions, 'ou_bot').text;

describe('contents in', () => {
  test.each([
    ['@_user_1 hello', 'hello'],
    ['hello @_user_1', 'hello'],
    ['hello @_user_1 again', 'hello again'],
    ['one\n@_user_1 two', 'one\ntwo'],
    ['@_user_10 and @_user_2', '@Ten and @Bob'],
    ['@_user_99 who?', '@_user_99 who?'],
    ['say:\n    indented  code', 'say:\n    indented  code'],
  ])('%j is read as %j', (given, expected) => {
    expect(text({ text: given })).toBe(expected);
  });

  test('a post: title, links, mentions, code, pictures', () => {
    const post = {
      title: 'Plan',
      content: [
        [
          { tag: 'at', user_id: '@_user_1' },
          { tag: 'text', text: 'see ' },
          { tag: 'a', text: 'this', href: 'https://example.org' },
          { tag: 'at', user_id: '@_user_2', user_name: 'Bob' },
        ],
        [{ tag: 'code_block', language: 'JS', text: 'let a' }],
        [{ tag: 'img', image_key: 'img_1' }],
      ],
    };
    const read = readContent('post', JSON.stringify(post), mentions, 'ou_bot');
    expect(read.text).toBe('Plan\nsee [this](https://example.org)@Bob\n\n```js\nlet a\n```');
    expect(read.resources).toEqual([{ type: 'image', key: 'img_1' }]);
    expect(text({ zh_cn: post }, 'post')).toBe(read.text);
  });

  test('whatever comes, it is read without throwing', () => {
    fc.assert(
      fc.property(fc.constantFrom('text', 'post', 'image', 'file', 'new_type'), fc.json(), (type, json) => {
        expect(typeof readContent(type, json, mentions, 'ou_bot').text).toBe('string');
      }),
    );
  });
});

describe('contents out', () => {
  test('a post for words, a card for code and tables', () => {
    expect(renderPart('hello **you**')).toEqual({
      type: 'post',
      json: JSON.stringify({ zh_cn: { content: [[{ tag: 'md', text: 'hello **you**' }]] } }),
    });
    expect(renderPart('```\ncode\n```').type).toBe('interactive');
    expect(renderPart('| a | b |\n|---|---|\n| 1 | 2 |').type).toBe('interactive');
  });

  test('headings are levelled down, but not in code', () => {
    expect(renderPart('# Title').json).toContain('#### Title');
    expect(renderPart('```\n# comment\n```').json).toContain('\\n# comment');
  });

  test('tables beyond what a card takes become code', () => {
    const table = '| a | b |\n|---|---|\n| 1 | 2 |';
    const card = JSON.parse(cardJson(Array.from({ length: 7 }, () => table).join('\n\n'), false)) as {
      body: { elements: { content: string }[] };
    };
    expect(card.body.elements[0]?.content.match(/^```$/gm)).toHaveLength(6);
  });

  test('a fence that is cut is closed and opened again', () => {
    const code = Array.from({ length: 40 }, (_, n) => `line ${n}`).join('\n');
    const parts = splitMarkdown(`before\n\n\`\`\`js\n${code}\n\`\`\`\n\nafter`, {
      maxChars: 200,
      maxBytes: 1_000,
    });
    expect(parts.length).toBeGreaterThan(2);
    for (const part of parts) expect((part.match(/^```/gm)?.length ?? 0) % 2).toBe(0);
    expect(
      parts
        .join('\n')
        .replaceAll(/^(```.*|before|after|)\n?/gm, '')
        .trim(),
    ).toBe(code);
  });

  test('every part fits, is the same each time, and no word is lost', () => {
    const words = fc.array(
      fc.constantFrom('word ', '字', '😀', '\n', '\n\n', '```\n', '"\\"', 'x'.repeat(50)),
      {
        maxLength: 1_500,
      },
    );
    fc.assert(
      fc.property(words, (list) => {
        const whole = list.join('');
        const parts = partsOf(whole);
        expect(partsOf(whole)).toEqual(parts);
        const bare = (value: string) => value.replaceAll(/[\s`]/g, '');
        expect(bare(parts.join(''))).toBe(bare(whole));
        for (const part of parts) {
          expect(part.length).toBeLessThanOrEqual(4_000);
          expect(part.isWellFormed()).toBe(true);
          expect(Buffer.byteLength(renderPart(part).json)).toBeLessThanOrEqual(30_720);
          expect(Buffer.byteLength(cardJson(part, true))).toBeLessThanOrEqual(30_720);
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe('what would ring or be refused', () => {
  const everybody = 'attention <at user_id="all"></at> and < AT id=all>';

  test('mentions that nobody asked for are words', () => {
    for (const json of [
      renderPart(everybody).json,
      cardJson(everybody, false),
      renderPlain(everybody).json,
    ]) {
      expect(json).not.toMatch(/<\s*\/?\s*at/i);
      expect(json).toContain('attention');
    }
    expect(renderPart('a < attic').json).toContain('a < attic');
  });

  test('pictures by address become links, but not in code', () => {
    const shown = 'see ![a cat](https://e.org/cat.png)\n\n```\n![x](y)\n```';
    const card = cardJson(shown, false);
    expect(card).toContain('see [a cat](https://e.org/cat.png)');
    expect(card).toContain('![x](y)');
  });
});
