// Our Markdown → what WeChat shows: plain words, in parts that a chat takes.
import { plainText } from '../shared/plain.ts';
import { splitMarkdown, type Limits } from '../shared/split.ts';

/** The web protocol cuts longer messages off without a word. */
const PART: Limits = { maxChars: 2_000, maxBytes: 8_000 };

/** As many parts as it takes; none for an empty text. */
export function partsOf(markdown: string): string[] {
  const text = plainText(markdown);
  return text === '' ? [] : splitMarkdown(text, PART);
}
