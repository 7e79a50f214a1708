// Cutting what is too long for the model to read: head and tail stay, the middle says how much is missing.
import type { ImageBlock, TextBlock, ThinkingBlock } from '../domain/messages.ts';

/** Part of the room that the head gets; the rest goes to the tail. */
const HEAD_SHARE = 0.75;

/** At most maxChars UTF-16 units, the note included (for maxChars of 100 and more); never cuts a surrogate pair. */
export function truncateText(text: string, maxChars: number, headShare = HEAD_SHARE): string {
  if (text.length <= maxChars) return text;
  const note = `\n[… ${text.length - maxChars} characters cut …]\n`;
  const room = Math.max(0, maxChars - note.length - 8);
  const head = Math.floor(room * headShare);
  const tail = room - head;
  return text.slice(0, pairStart(text, head)) + note + text.slice(pairEnd(text, text.length - tail));
}

/** Smaller pieces of a text are not worth keeping. */
const LEAST_CHARS = 100;

type Content = string | (TextBlock | ImageBlock)[];

/** All text of a tool's result together is at most maxChars; pictures stay. Returns the same object if nothing is cut. */
export function truncateContent(content: Content, maxChars: number): Content {
  if (typeof content === 'string') return truncateText(content, maxChars);
  let total = 0;
  for (const block of content) if (block.type === 'text') total += block.text.length;
  if (total <= maxChars) return content;
  let room = maxChars;
  return content.flatMap((block): Content & object => {
    if (block.type !== 'text') return [block];
    // What is left would hold little more than the note.
    if (block.text.length > room && room < LEAST_CHARS) return [];
    const text = truncateText(block.text, room);
    room -= text.length;
    return [{ ...block, text }];
  });
}

/**
 * Reasoning that is only kept for people: cut to maxChars, half head and half tail. Signed reasoning is never touched
 * (the vendor would reject it), nor is what came under a wire field of its own (some vendors want it back whole).
 */
export function truncateThinking(block: ThinkingBlock, maxChars: number): ThinkingBlock {
  if (block.signature !== undefined || block.redacted !== undefined || block.field !== undefined)
    return block;
  if (block.thinking.length <= maxChars) return block;
  return { ...block, thinking: truncateText(block.thinking, maxChars, 0.5) };
}

const isLowSurrogate = (code: number) => code >= 0xdc00 && code <= 0xdfff;

const pairStart = (text: string, index: number) =>
  index > 0 && isLowSurrogate(text.charCodeAt(index)) ? index - 1 : index;

const pairEnd = (text: string, index: number) => (isLowSurrogate(text.charCodeAt(index)) ? index + 1 : index);
