// @ts-check
// The transcript on the screen: one list element per item, keyed and redrawn only when its `rev` changed.
import { h, icon, copyText } from './dom.js';
import { createFileView } from './file-view.js';
import { createMarkdownView } from './markdown.js';
import { createToolView } from './tool-view.js';
import { currentLanguage, duration, problemText, t } from './strings.js';

/** @typedef {import('./transcript.js').Item} Item */
/** @typedef {import('./history.js').UserItem} UserItem */
/** @typedef {import('./history.js').AssistantItem} AssistantItem */
/** @typedef {import('./history.js').Part} Part */
/** @typedef {{ onRetry: (id: string) => void, onEdit: (id: string) => void, fileUrl: (file: import('./file-view.js').ShownFile) => string | undefined }} Actions */
/** @typedef {{ element: HTMLElement, type: string, update: (part: any, live: boolean) => void, tick?: () => void }} PartView */
/** @typedef {{ element: HTMLElement, rev: number, item: Item, update: (item: any) => void, tick?: () => void }} ItemView */

/**
 * @param {HTMLElement} listElement
 * @param {Actions} actions
 */
export function createTranscriptView(listElement, actions) {
  /** @type {Map<string, ItemView>} */
  let views = new Map();

  return {
    /** @param {readonly Item[]} items */
    render(items) {
      /** @type {typeof views} */
      const next = new Map();
      /** @type {ChildNode | null} */
      let place = listElement.firstChild;
      for (const item of items) {
        const view = views.get(item.key) ?? createItemView(item, actions);
        next.set(item.key, view);
        if (view.item !== item || view.rev !== item.rev) {
          view.update(item);
          view.item = item;
          view.rev = item.rev;
        }
        if (view.element === place) place = place.nextSibling;
        else listElement.insertBefore(view.element, place);
      }
      for (const [key, view] of views) if (!next.has(key)) view.element.remove();
      views = next;
    },
    /** Another conversation, or another language: everything is made anew. */
    clear() {
      views = new Map();
      listElement.replaceChildren();
    },
    /** Lets running clocks show the time. */
    tick() {
      for (const view of views.values()) view.tick?.();
    },
  };
}

/** @param {Item} item @param {Actions} actions @returns {ItemView} */
function createItemView(item, actions) {
  if (item.kind === 'user') return createUserView(item, actions);
  if (item.kind === 'assistant') return createAssistantView(item, actions);
  const element = h('li', { class: 'item notice' }, h('p', {}, item.text));
  return { element, item, rev: item.rev, update: () => undefined };
}

/** @param {UserItem} first @param {Actions} actions @returns {ItemView} */
function createUserView(first, actions) {
  const state = h('p', { class: 'state' });
  const files = h('div', { class: 'attachments' });
  files.append(...first.files.map((file) => createFileView(file, actions.fileUrl)));
  files.hidden = first.files.length === 0;
  const said = h('p', { class: 'said' }, first.text);
  said.hidden = first.text === '';
  const element = h(
    'li',
    { class: 'item user' },
    h('h2', { class: 'visually-hidden' }, t('you')),
    h('div', { class: 'bubble' }, files, said),
    state,
  );

  /** @param {UserItem} item */
  function update(item) {
    element.dataset.state = item.state;
    state.replaceChildren();
    if (item.state === 'sending') state.append(t('sending'));
    if (item.state === 'waiting') state.append(t('waiting'));
    if (item.state !== 'failed') return;
    state.append(
      `${t('failed')} ${item.problem ? problemText(item.problem) : ''} `,
      h('button', { type: 'button', class: 'link', click: () => actions.onRetry(item.id) }, t('retry')),
      h('button', { type: 'button', class: 'link', click: () => actions.onEdit(item.id) }, t('edit')),
    );
  }
  update(first);
  return { element, item: first, rev: first.rev, update };
}

/** @param {AssistantItem} first @param {Actions} actions @returns {ItemView} */
function createAssistantView(first, actions) {
  const body = h('div', { class: 'parts' });
  const stopped = h('span', { class: 'stopped' });
  const time = h('time', {});
  const copyLabel = h('span', {}, t('copy'));
  let text = '';
  const copy = h(
    'button',
    { type: 'button', class: 'quiet small', click: () => void onCopy() },
    icon('copy'),
    copyLabel,
  );
  const foot = h('div', { class: 'foot' }, stopped, copy, time);
  const element = h(
    'li',
    { class: 'item assistant' },
    h('h2', { class: 'visually-hidden' }, 'Lanekeeper'),
    body,
    foot,
  );
  /** @type {PartView[]} */
  let parts = [];

  async function onCopy() {
    if (!(await copyText(text))) return;
    copyLabel.textContent = t('copied');
    setTimeout(() => (copyLabel.textContent = t('copy')), 1_500);
  }

  /** @param {AssistantItem} item */
  function update(item) {
    element.classList.toggle('live', item.live);
    for (const [index, part] of item.parts.entries()) {
      let view = parts[index];
      if (view?.type !== part.type) {
        for (const old of parts.splice(index)) old.element.remove();
        view = createPartView(part, actions);
        parts.push(view);
        body.append(view.element);
      }
      view.update(part, item.live && index === item.parts.length - 1);
    }
    for (const old of parts.splice(item.parts.length)) old.element.remove();
    text = item.parts
      .map((part) => (part.type === 'text' ? part.text : ''))
      .filter(Boolean)
      .join('\n\n');
    copy.hidden = text === '';
    foot.hidden = item.live;
    stopped.textContent = item.stopped ? t('stopped') : '';
    stopped.hidden = !item.stopped;
    time.dateTime = new Date(item.at).toISOString();
    time.textContent = clockTime(item.at);
  }
  update(first);
  return {
    element,
    item: first,
    rev: first.rev,
    update,
    tick: () => {
      for (const part of parts) part.tick?.();
    },
  };
}

/** @param {number} at */
function clockTime(at) {
  const today = new Date().toDateString() === new Date(at).toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const style = today ? { timeStyle: 'short' } : { dateStyle: 'medium', timeStyle: 'short' };
  return new Intl.DateTimeFormat(currentLanguage() === 'zh' ? 'zh-CN' : 'en', style).format(at);
}

/** @param {Part} part @param {Actions} actions @returns {PartView} */
function createPartView(part, { fileUrl }) {
  switch (part.type) {
    case 'text':
      return createTextView();
    case 'thinking':
      return createThinkingView();
    case 'tool':
      return createToolView(fileUrl);
    case 'error': {
      const element = h('p', { class: 'error' });
      return { element, type: 'error', update: ({ text }) => (element.textContent = text) };
    }
    case 'file': {
      return { element: createFileView(part, fileUrl), type: 'file', update: () => undefined };
    }
  }
}

/** @returns {PartView} */
function createTextView() {
  const element = h('div', { class: 'markdown' });
  const markdown = createMarkdownView(element);
  let shown = '';
  return {
    element,
    type: 'text',
    update(/** @type {import('./history.js').TextPart} */ { text }, live) {
      element.classList.toggle('streaming', live);
      if (text === shown) return;
      shown = text;
      markdown.update(text);
    },
  };
}

/** @returns {PartView} */
function createThinkingView() {
  const label = h('span', { class: 'name' });
  const text = h('div', { class: 'reasoning' });
  const element = h(
    'details',
    { class: 'step thinking' },
    h('summary', {}, icon('thought'), label, icon('chevron')),
    text,
  );
  return {
    element,
    type: 'thinking',
    update(/** @type {import('./history.js').ThinkingPart} */ part, live) {
      const running = live && part.durationMs === undefined && part.startedAt !== undefined;
      element.classList.toggle('running', running);
      if (running) label.textContent = t('thinking');
      else if (part.durationMs === undefined || part.durationMs < 1_000) label.textContent = t('thought');
      else label.textContent = t('thought_for', { time: duration(part.durationMs) });
      text.textContent = part.text;
    },
  };
}
