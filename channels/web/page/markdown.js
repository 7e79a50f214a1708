// @ts-check
// An answer's Markdown on the screen. What a model writes is untrusted: the parser's tokens become elements made here, one kind
// at a time, and never HTML text. Raw HTML is shown as it was written, links lead to http(s) and mail only, and pictures become
// links, so that reading an answer contacts nobody.
import { Marked } from './vendor/marked.esm.js';
import { copyText, h, icon } from './dom.js';
import { t } from './strings.js';

/** @typedef {import('./vendor/marked.esm.js').Token} Token */
/** @typedef {import('./vendor/marked.esm.js').Tokens.Table} Table */
/** @typedef {import('./vendor/marked.esm.js').Tokens.List} List */

const CJK = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\u3000-\u303f\uff00-\uffef]/u;

// CommonMark's rule for ** asks for spaces around punctuation, which Chinese has none of: **“重点”**在这里 would stay as it is.
const cjkStrong = {
  name: 'cjkStrong',
  level: /** @type {const} */ ('inline'),
  start: (/** @type {string} */ source) => source.indexOf('**'),
  /** @this {import('marked').TokenizerThis} @param {string} source */
  tokenizer(source) {
    const match = /^\*\*(?![\s*])([^*\n]+?)(?<!\s)\*\*(?!\*)/.exec(source);
    if (!match?.[1] || !CJK.test(match[1])) return undefined;
    return { type: 'strong', raw: match[0], text: match[1], tokens: this.lexer.inlineTokens(match[1]) };
  },
};

const marked = new Marked({ gfm: true, breaks: true, extensions: [cjkStrong] });

/**
 * Shows Markdown that may still grow: blocks that did not change keep their elements, so that a selection, a focused button
 * or a scrolled table survives the stream.
 * @param {HTMLElement} container
 */
export function createMarkdownView(container) {
  /** @type {string[]} */
  let shown = [];
  return {
    /** @param {string} text */
    update(text) {
      const tokens = marked.lexer(text).filter((token) => token.type !== 'space' && token.type !== 'def');
      let same = 0;
      while (same < shown.length && same < tokens.length && shown[same] === tokens[same]?.raw) same++;
      while (container.childNodes.length > same) container.lastChild?.remove();
      for (const token of tokens.slice(same)) container.append(block(token));
      shown = tokens.map((token) => token.raw);
    },
  };
}

/** @param {Token} token @returns {Node} */
function block(token) {
  switch (token.type) {
    case 'heading':
      return h(headingTag(token.depth), {}, inline(token.tokens));
    case 'paragraph':
      return h('p', {}, inline(token.tokens));
    case 'code':
      return codeBlock(token.text, token.lang ?? '');
    case 'blockquote':
      return h('blockquote', {}, ...(token.tokens ?? []).map(block));
    case 'list':
      return list(/** @type {List} */ (token));
    case 'table':
      return table(/** @type {Table} */ (token));
    case 'hr':
      return h('hr');
    case 'text':
      return h('p', {}, inline([token]));
    case 'space':
    case 'def':
      return document.createDocumentFragment();
    default:
      return h('p', {}, token.raw.trim());
  }
}

/** The page's own headings come first: an answer's start at the third level. @param {number} depth */
function headingTag(depth) {
  return depth <= 1 ? 'h3' : depth === 2 ? 'h4' : depth === 3 ? 'h5' : 'h6';
}

/** @param {List} token */
function list(token) {
  const items = token.items.map((item) => {
    const children = item.tokens
      .filter((child) => child.type !== 'space')
      // A tight item's text is not a paragraph.
      .map((child) => (child.type === 'text' && !item.loose ? inline([child]) : inlineOrBlock(child)));
    return h('li', { class: item.task ? 'task' : undefined }, ...children);
  });
  const start =
    token.ordered && typeof token.start === 'number' && token.start !== 1 ? String(token.start) : undefined;
  return h(token.ordered ? 'ol' : 'ul', { start }, ...items);
}

/** @param {Token} token */
const inlineOrBlock = (token) => (token.type === 'checkbox' ? inline([token]) : block(token));

/** @param {Table} token */
function table({ header, rows, align }) {
  /** @param {'th' | 'td'} tag @param {Table['header']} cells */
  const row = (tag, cells) =>
    h(
      'tr',
      {},
      ...cells.map((cell, column) => {
        const side = align[column];
        return h(tag, { class: side ? `align-${side}` : undefined }, inline(cell.tokens));
      }),
    );
  const body = h('tbody', {}, ...rows.map((cells) => row('td', cells)));
  return h('div', { class: 'table', tabindex: '0' }, h('table', {}, h('thead', {}, row('th', header)), body));
}

/** @param {string} text @param {string} info what follows the fence: its first word is the language */
function codeBlock(text, info) {
  const language = /^[\w+#.-]{1,20}/.exec(info)?.[0] ?? '';
  const label = h('span', {}, t('copy'));
  const copy = h(
    'button',
    { type: 'button', class: 'quiet small', click: () => void onCopy() },
    icon('copy'),
    label,
  );
  async function onCopy() {
    if (!(await copyText(text))) return;
    label.textContent = t('copied');
    setTimeout(() => (label.textContent = t('copy')), 1_500);
  }
  return h(
    'div',
    { class: 'code' },
    h('div', { class: 'code-head' }, h('span', {}, language || t('code')), copy),
    h('pre', { tabindex: '0' }, h('code', {}, text)),
  );
}

/** @param {Token[] | undefined} tokens */
function inline(tokens = []) {
  const fragment = document.createDocumentFragment();
  for (const token of tokens) fragment.append(inlineToken(token));
  return fragment;
}

/** @param {Token} token @returns {Node | string} */
function inlineToken(token) {
  switch (token.type) {
    case 'text':
      return token.tokens ? inline(token.tokens) : decodeEntities(token.text);
    case 'escape':
      return token.text;
    case 'strong':
    case 'em':
    case 'del':
      return h(token.type, {}, inline(token.tokens));
    case 'codespan':
      return h('code', {}, token.text);
    case 'br':
      return h('br');
    case 'checkbox':
      return h('input', { type: 'checkbox', disabled: true, checked: token.checked === true });
    case 'link':
      return link(token.href, inline(token.tokens), token.title ?? undefined);
    case 'image':
      return link(token.href, t('image', { name: token.text || token.href }), token.title ?? undefined);
    case 'html':
      // The one tag that models put into table cells on purpose.
      return /^<br\s*\/?>$/i.test(token.raw.trim()) ? h('br') : token.raw;
    default:
      return token.raw;
  }
}

/** @param {string} href @param {Node | string} content @param {string} [title] */
function link(href, content, title) {
  const url = URL.canParse(href) ? new URL(href) : undefined;
  if (!url || !['http:', 'https:', 'mailto:'].includes(url.protocol))
    return h('span', { title: href }, content);
  return h('a', { href: url.href, title, target: '_blank', rel: 'noopener noreferrer nofollow' }, content);
}

const NAMED = new Map(
  Object.entries({
    amp: '&',
    lt: '<',
    gt: '>',
    quot: '"',
    apos: "'",
    nbsp: '\u00a0',
    hellip: '…',
    mdash: '—',
    ndash: '–',
    copy: '©',
    reg: '®',
    trade: '™',
    times: '×',
    deg: '°',
    middot: '·',
    bull: '•',
    rarr: '→',
    larr: '←',
    euro: '€',
  }),
);

/** @param {string} text */
function decodeEntities(text) {
  return text.replaceAll(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{2,8}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return NAMED.get(name) ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff)
      ? String.fromCodePoint(code)
      : whole;
  });
}
