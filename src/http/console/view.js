// @ts-check
// What the operator's page shows, made of elements and text: nothing that people or models wrote is ever read as HTML.
import { language, t } from './strings.js';

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [properties]
 * @param {(Node | string | undefined)[]} children
 */
export function h(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

/** @param {number} at */
export const when = (at) => h('span', { className: 'soft' }, new Date(at).toLocaleString(language));

/**
 * @param {string} title
 * @param {(Node | undefined)[]} rows
 * @param {Node} [after]
 */
export function section(title, rows, after) {
  const list = rows.length > 0 ? h('ul', {}, ...rows) : h('p', { className: 'soft' }, t('none'));
  return h('section', {}, h('h2', {}, title), list, after);
}

/**
 * @param {{ items: { account: string, type: string, state: string, detail?: string, qr?: string, asks?: string }[] }} channels
 * @param {(account: string, code: string) => void} enter
 */
export function channelsView({ items }, enter) {
  const states = /** @type {Record<string, Parameters<typeof t>[0]>} */ ({ failed: 'state_failed' });
  const rows = items.map(({ account, type, state, detail, qr, asks }) =>
    h(
      'li',
      {},
      h('span', { className: 'name' }, account),
      h('span', { className: 'soft' }, type),
      h(
        'span',
        { className: state === 'connected' ? '' : 'bad' },
        t(states[state] ?? /** @type {Parameters<typeof t>[0]} */ (state)),
      ),
      detail,
      qr === undefined ? undefined : qrPicture(account, qr),
      asks === 'code' ? codeForm((code) => enter(account, code)) : undefined,
    ),
  );
  return section(t('channels'), rows);
}

/**
 * @param {string} account
 * @param {string} content
 */
function qrPicture(account, content) {
  // Another code is another address, so that no old picture is shown.
  const src = `/api/channels/${encodeURIComponent(account)}/qr.svg?of=${encodeURIComponent(content.slice(-24))}`;
  return h('img', { className: 'qr', src, alt: t('qr', { account }) });
}

/** @param {(code: string) => void} enter */
function codeForm(enter) {
  const code = h('input', { name: 'code', autocomplete: 'one-time-code', required: true });
  return h(
    'form',
    {
      onsubmit(/** @type {SubmitEvent} */ event) {
        event.preventDefault();
        if (code instanceof HTMLInputElement) enter(code.value);
      },
    },
    h('label', {}, t('phone_code'), code),
    h('button', { type: 'submit' }, t('enter')),
  );
}

/**
 * @param {{ items: { id: string, conversation: string, attempts: number, error?: string, at: number }[] }} deliveries
 * @param {(id: string) => void} retry
 */
export function deliveriesView({ items }, retry) {
  const rows = items.map(({ id, conversation, attempts, error, at }) =>
    h(
      'li',
      {},
      h('span', { className: 'name' }, conversation),
      when(at),
      h('span', { className: 'soft' }, t('attempts', { n: attempts })),
      h('span', { className: 'bad' }, error ?? ''),
      h('button', { type: 'button', onclick: () => retry(id) }, t('retry')),
    ),
  );
  return section(t('deliveries'), rows);
}

/**
 * @param {{ items: { id: string, conversation: string, text: string, error: string, at: number }[] }} messages
 * @param {(conversation: string, id: string) => void} ask
 */
export function failedView({ items }, ask) {
  const rows = items.map(({ id, conversation, text, error, at }) =>
    h(
      'li',
      {},
      h('span', { className: 'name' }, conversation),
      when(at),
      h('span', {}, text.length > 80 ? `${text.slice(0, 80)}…` : text),
      h('span', { className: 'bad' }, error),
      h('button', { type: 'button', onclick: () => ask(conversation, id) }, t('ask_again')),
    ),
  );
  return section(t('failed_messages'), rows);
}

/**
 * @param {{ items: { id: string, at: number }[], cursor?: string }} conversations
 * @param {(id: string) => void} show
 * @param {(() => void) | undefined} more
 */
export function conversationsView({ items }, show, more) {
  const rows = items.map(({ id, at }) =>
    h(
      'li',
      {},
      h('button', { type: 'button', className: 'link name', onclick: () => show(id) }, id),
      when(at),
    ),
  );
  const button = more && h('button', { type: 'button', onclick: more }, t('more'));
  return section(t('conversations'), rows, button);
}

/**
 * @typedef {{ type: string, text?: string, thinking?: string, name?: string, input?: unknown,
 *   content?: string | { text?: string }[] }} Block
 * @typedef {{ id: string, summary?: string, run?: string, pending: number,
 *   messages: { role: string, at: number, sender?: { id: string, name?: string }, content: Block[] }[] }} Conversation
 */

/**
 * @param {Conversation} conversation
 * @param {{ back: () => void, cancel: () => void, reset: () => void, earlier: (() => void) | undefined }} actions
 */
export function conversationView({ id, summary, run, pending, messages }, actions) {
  const button = (/** @type {string} */ text, /** @type {() => void} */ onclick) =>
    h('button', { type: 'button', onclick }, text);
  return h(
    'section',
    {},
    h('h2', {}, id),
    button(t('back'), actions.back),
    ' ',
    run === undefined ? undefined : button(t('cancel'), actions.cancel),
    ' ',
    button(t('reset'), actions.reset),
    h(
      'p',
      { className: 'soft' },
      run === undefined ? '' : `${t('running')} · `,
      t('pending', { n: pending }),
    ),
    summary === undefined ? undefined : h('p', { className: 'message' }, `${t('summary')}: ${summary}`),
    actions.earlier && button(t('earlier'), actions.earlier),
    ...messages.map(({ role, at, sender, content }) =>
      h(
        'div',
        { className: `message ${role}` },
        h('span', { className: 'soft' }, `${sender?.name ?? sender?.id ?? role} `),
        when(at),
        h('div', {}, content.map(blockText).join('\n')),
      ),
    ),
  );
}

/** @param {Block} block */
function blockText({ type, text, thinking, name, input, content }) {
  switch (type) {
    case 'text':
      return text ?? '';
    case 'thinking':
      return `(${thinking ?? ''})`;
    case 'tool_use':
      return `${t('tool', { name: name ?? '' })}: ${JSON.stringify(input)}`;
    case 'tool_result': {
      const result =
        typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('');
      return `${t('result', { n: result.length })}: ${result}`;
    }
    default:
      return `[${type}${name ? ` ${name}` : ''}]`;
  }
}
