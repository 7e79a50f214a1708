// Cutting long texts: head and tail stay, nothing is longer than allowed, no character is cut in half.
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { truncateContent, truncateText, truncateThinking } from '../../src/agent/truncate.ts';

describe('truncateText', () => {
  it('keeps what is short', () => {
    expect(truncateText('short', 100)).toBe('short');
  });

  it('keeps head and tail, and says how much is missing', () => {
    const cut = truncateText(`start${'x'.repeat(10_000)}end`, 1_000);
    expect(cut).toMatch(/^startx+\n\[… 9008 characters cut …\]\nx+end$/u);
    expect(cut.length).toBeLessThanOrEqual(1_000);
  });

  it('never cuts a character in half, nor exceeds its limit', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 100, maxLength: 400 }),
        fc.integer({ min: 100, max: 300 }),
        (text, max) => {
          const cut = truncateText(text, max);
          expect(cut.length).toBeLessThanOrEqual(Math.max(max, text.length <= max ? text.length : max));
          expect(cut.isWellFormed()).toBe(true);
        },
      ),
    );
  });
});

describe('truncateContent', () => {
  it('counts all text together, and keeps pictures', () => {
    const picture = { type: 'image', media_type: 'image/png', ref: 'x' } as const;
    const text = (length: number) => ({ type: 'text' as const, text: 'x'.repeat(length) });
    const content = [text(600), picture, text(600), text(600)];
    expect(truncateContent(content, 1_800)).toBe(content);
    const cut = truncateContent(content, 1_000);
    expect(cut).toHaveLength(3);
    expect(cut[1]).toBe(picture);
    expect(
      typeof cut !== 'string' &&
        cut.reduce((sum, block) => sum + (block.type === 'text' ? block.text.length : 0), 0),
    ).toBeLessThanOrEqual(1_000);
  });
});

describe('truncateThinking', () => {
  const long = 'a'.repeat(3_000) + 'z'.repeat(3_000);

  it.each([
    ['signed', { signature: 's' }],
    ['redacted', { redacted: 'r' }],
    ['to be sent back', { field: 'reasoning_content' }],
  ])('leaves what is %s alone', (_name, extra) => {
    const block = { type: 'thinking' as const, thinking: long, ...extra };
    expect(truncateThinking(block, 4_096)).toBe(block);
  });

  it('keeps about 2,048 characters of head and tail of the rest', () => {
    const { thinking } = truncateThinking({ type: 'thinking', thinking: long }, 4_096);
    expect(thinking).toMatch(/^a{2000,2048}\n\[… \d+ characters cut …\]\nz{2000,2048}$/u);
  });
});
