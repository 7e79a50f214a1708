// Our Markdown → texts as WeChat shows them: plain, each short enough.
import { plainText } from '../shared/plain.ts';
import { fits, splitMarkdown, type Limits } from '../shared/split.ts';

const TEXT: Limits = { maxChars: 4_000, maxBytes: 16_000 };

/** As many parts as it takes; the same text always gives the same. */
export function partsOf(markdown: string): string[] {
  const whole = plainText(markdown);
  if (whole === '') return [];
  if (fits(whole, TEXT)) return [whole];
  // Cut while code still is code, so that it stays together.
  return splitMarkdown(markdown.trim(), TEXT)
    .map((part) => plainText(part))
    .flatMap((part) => splitMarkdown(part, TEXT))
    .filter((part) => part !== '');
}
