// Markdown in parts that each fit: cut between paragraphs, else lines, else words; a code fence that is cut is closed and opened
// again. The same text always gives the same parts, so that each part's uuid is stable.

export interface Limits {
  maxChars: number;
  maxBytes: number;
}

const FENCE = /^ {0,3}(```+|~~~+)(.*)$/;
/** Room for a fence closed at the end and opened again with its language. */
const FENCE_ROOM = 64;

export function splitMarkdown(text: string, limits: Limits): string[] {
  if (fits(text, limits)) return [text];
  const room = { maxChars: limits.maxChars - FENCE_ROOM, maxBytes: limits.maxBytes - FENCE_ROOM };
  const parts: string[] = [];
  let part: string[] = [];
  let fence: { mark: string; line: string } | undefined;

  const close = (): void => {
    const lines = fence ? [...part, fence.mark] : part;
    const joined = lines.join('\n').trimEnd();
    if (joined.trim() !== '') parts.push(joined);
    part = fence ? [fence.line] : [];
  };

  for (const block of blocksOf(text)) {
    // A whole block moves on if it would be cut here but fits alone.
    if (part.length > 0 && !fits([...part, ...block].join('\n'), room) && fits(block.join('\n'), room))
      close();
    for (const line of block) {
      for (const piece of fits(line, room) ? [line] : chop(line, room)) {
        if (part.length > 0 && !fits([...part, piece].join('\n'), room)) close();
        part.push(piece);
      }
      const [, mark, info = ''] = FENCE.exec(line) ?? [];
      if (mark === undefined) continue;
      if (!fence) fence = { mark, line: `${mark}${info.trim().slice(0, 20)}` };
      else if (mark.startsWith(fence.mark) && info.trim() === '') fence = undefined;
    }
  }
  fence = undefined;
  close();
  return parts;
}

export const fits = (text: string, { maxChars, maxBytes }: Limits): boolean =>
  text.length <= maxChars && (text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes);

/** Paragraphs with the empty lines after them; a fenced block is one. */
function blocksOf(text: string): string[][] {
  const blocks: string[][] = [];
  let block: string[] = [];
  let mark: string | undefined;
  for (const line of text.split('\n')) {
    block.push(line);
    const [, found] = FENCE.exec(line) ?? [];
    if (mark === undefined) mark = found;
    else if (found?.startsWith(mark)) mark = undefined;
    if (mark === undefined && line.trim() === '') {
      blocks.push(block);
      block = [];
    }
  }
  if (block.length > 0) blocks.push(block);
  return blocks;
}

/** A line too long for one part: cut after a space or a full stop if there is one near the end; never inside a character. */
function chop(line: string, limits: Limits): string[] {
  const pieces: string[] = [];
  let rest = line;
  while (!fits(rest, limits)) {
    let end = Math.min(limits.maxChars, rest.length);
    while (!fits(rest.slice(0, end), limits)) end = Math.floor(end * 0.9);
    const window = rest.slice(Math.floor(end * 0.7), end);
    const at = Math.max(window.lastIndexOf(' '), window.lastIndexOf('。'), window.lastIndexOf('，'));
    if (at >= 0) end = Math.floor(end * 0.7) + at + 1;
    // The first half of a surrogate pair stays with its second.
    const last = rest.charCodeAt(end - 1);
    if (last >= 0xd800 && last <= 0xdbff) end -= 1;
    pieces.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  pieces.push(rest);
  return pieces;
}
