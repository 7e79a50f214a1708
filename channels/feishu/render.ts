// Our Markdown → the platform's messages: a post with one `md` element, or a card where a post shows it badly (code,
// tables). Limits: https://open.feishu.cn/document/server-docs/im-v1/message/create
import type { Content } from './client/api.ts';
import { fits, splitMarkdown, type Limits } from '../shared/split.ts';

const TEXT: Limits = { maxChars: 4_000, maxBytes: 24_000 };
/** Of the JSON as it is sent. */
const MAX_JSON_BYTES = 30_720;
/** A card with more is refused (11310). */
const MAX_TABLES = 4;
export const ELEMENT = 'answer';

/** As many parts as it takes; each fits into a post or a card. */
export function partsOf(text: string): string[] {
  const whole = text.trim();
  if (whole === '') return [];
  return splitMarkdown(whole, TEXT).flatMap((part) => tight(part));
}

/** Quotes and line ends grow when they become JSON, twice in a card's element. */
function tight(part: string): string[] {
  if (Buffer.byteLength(cardJson(part, false)) <= MAX_JSON_BYTES) return [part];
  const half = { maxChars: Math.ceil(part.length / 2) + 64, maxBytes: TEXT.maxBytes };
  return splitMarkdown(part, half).flatMap((smaller) =>
    smaller.length < part.length ? tight(smaller) : [smaller],
  );
}

export function renderPart(part: string): Content {
  if (needsCard(part)) return { type: 'interactive', json: cardJson(part, false) };
  const content = [[{ tag: 'md', text: harmless(levelled(part)) }]];
  return { type: 'post', json: JSON.stringify({ zh_cn: { content } }) };
}

/** The same words without any format: what is left to try when a rendering is refused. */
export const renderPlain = (part: string): Content => ({
  type: 'text',
  json: JSON.stringify({ text: unmentioned(part) }),
});

const FENCED = /^ {0,3}(?:```|~~~)/m;
const TABLE_RULE = /^ {0,3}\|?[ :]*-+[ :]*(?:\|[ :]*-+[ :]*)+\|? *$/m;

const needsCard = (text: string): boolean => FENCED.test(text) || text.search(TABLE_RULE) !== -1;

/** `streaming`: a card whose text goes on growing. */
export function cardJson(text: string, streaming: boolean): string {
  return JSON.stringify({
    schema: '2.0',
    config: {
      update_multi: true,
      ...(streaming
        ? {
            streaming_mode: true,
            streaming_config: { print_frequency_ms: { default: 50 }, print_step: { default: 4 } },
          }
        : {}),
    },
    body: { elements: [{ tag: 'markdown', element_id: ELEMENT, content: cardText(text) }] },
  });
}

/** Text as a card's element takes it. */
export function cardText(text: string): string {
  return fewTables(harmless(levelled(text)));
}

/** A mention that a model, or somebody through it, wrote would ring for people: for everybody, with `all`. */
const unmentioned = (text: string): string => text.replaceAll(/<(?=\s*\/?\s*at\b)/gi, '＜');

/** Pictures by address are refused, and the whole card with them: links take their place. */
const harmless = (text: string): string =>
  outsideFences(unmentioned(text), (line) =>
    line.replaceAll(
      /!\[([^\]]*)\]\((\S+?)\)/g,
      (_whole, alt: string, address: string) => `[${alt || address}](${address})`,
    ),
  );

export const fitsCard = (text: string): boolean =>
  fits(text, TEXT) && Buffer.byteLength(cardJson(text, true)) <= MAX_JSON_BYTES;

/** Headings two levels down: the platform shows the first ones as large as a page's title. */
function levelled(text: string): string {
  return outsideFences(text, (line) =>
    line.replace(/^(#{1,6})(?= )/, (marks) => '#'.repeat(Math.min(6, marks.length + 3))),
  );
}

/** Tables beyond what a card takes become code, which it takes. */
function fewTables(text: string): string {
  let tables = 0;
  const lines = text.split('\n');
  const result: string[] = [];
  let fenced = false;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? '';
    if (FENCED.test(line)) fenced = !fenced;
    const rule = lines[at + 1] ?? '';
    const isTable = !fenced && line.includes('|') && rule.search(TABLE_RULE) !== -1;
    if (!isTable || ++tables <= MAX_TABLES) {
      result.push(line);
      continue;
    }
    let end = at;
    while (end < lines.length && (lines[end] ?? '').includes('|')) end++;
    result.push('```', ...lines.slice(at, end), '```');
    at = end - 1;
  }
  return result.join('\n');
}

function outsideFences(text: string, change: (line: string) => string): string {
  let fenced = false;
  return text
    .split('\n')
    .map((line) => {
      if (FENCED.test(line)) fenced = !fenced;
      return fenced ? line : change(line);
    })
    .join('\n');
}
