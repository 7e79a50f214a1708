// @ts-check
// One tool call on the screen: its name, what it is about and how it goes; input and result open on demand.
import { h, icon } from './dom.js';
import { createFileView } from './file-view.js';
import { duration, t } from './strings.js';

/** @typedef {import('./history.js').ToolPart} ToolPart */

/** Results longer than this are cut on the screen. */
const MAX_SHOWN_CHARS = 20_000;

/** @param {(file: import('./file-view.js').ShownFile) => string | undefined} fileUrl */
export function createToolView(fileUrl) {
  const name = h('code', { class: 'name' });
  const about = h('span', { class: 'about' });
  const mark = h('span', { class: 'mark' });
  const state = h('span', { class: 'tool-state' });
  const input = h('pre', { tabindex: '0' });
  const output = h('pre', { tabindex: '0' });
  const inputBlock = h('div', {}, h('h3', {}, t('tool_input')), input);
  const outputBlock = h('div', {}, h('h3', {}, t('tool_output')), output);
  const details = h(
    'details',
    { class: 'step tool' },
    h('summary', {}, mark, name, about, state, icon('chevron')),
    h('div', { class: 'step-body' }, inputBlock, outputBlock),
  );
  const files = h('div', { class: 'attachments' });
  files.hidden = true;
  const element = h('div', {}, details, files);
  /** @type {ToolPart['files']} */
  let shownFiles;
  /** @type {ToolPart | undefined} */
  let shown;
  let shownState = '';

  /** @param {ToolPart} part */
  function stateText(part) {
    const word = t(`tool_${part.state}`);
    if (part.state === 'running' && part.startedAt !== undefined) {
      const ms = Date.now() - part.startedAt;
      return ms < 1_000 ? word : `${word} · ${duration(Math.floor(ms / 1_000) * 1_000)}`;
    }
    return part.durationMs === undefined ? word : `${word} · ${duration(part.durationMs)}`;
  }

  return {
    element,
    type: 'tool',
    /** @param {ToolPart} part */
    update(part) {
      shown = part;
      details.dataset.state = part.state;
      if (shownState !== part.state) {
        shownState = part.state;
        mark.replaceChildren(icon(MARKS[part.state]));
      }
      name.textContent = part.name;
      about.textContent = (part.state === 'running' && part.progress) || aboutText(part.input);
      state.textContent = stateText(part);
      if (shownFiles !== part.files) {
        shownFiles = part.files;
        files.replaceChildren(...(part.files ?? []).map((file) => createFileView(file, fileUrl)));
        files.hidden = files.childElementCount === 0;
      }
      const json = JSON.stringify(part.input, undefined, 2);
      inputBlock.hidden = json === '{}';
      input.textContent = json;
      const result = part.display ?? outputText(part.output);
      outputBlock.hidden = result === undefined;
      output.textContent = result === undefined ? '' : cut(result);
    },
    tick() {
      if (shown?.state === 'running') state.textContent = stateText(shown);
    },
  };
}

const MARKS = { waiting: 'clock', running: 'spinner', done: 'check', failed: 'cross', unknown: 'clock' };

/** A glimpse of the arguments: their texts. @param {Record<string, unknown>} input */
function aboutText(input) {
  return Object.values(input)
    .filter((value) => typeof value === 'string')
    .join(', ')
    .replaceAll(/\s+/g, ' ')
    .slice(0, 120);
}

/** @param {ToolPart['output']} output */
function outputText(output) {
  if (output === undefined || typeof output === 'string') return output;
  return output
    .map((block) => (block.type === 'text' ? block.text : t('image', { name: block.media_type })))
    .join('\n');
}

/** @param {string} text */
const cut = (text) => (text.length > MAX_SHOWN_CHARS ? `${text.slice(0, MAX_SHOWN_CHARS)}\n…` : text);
