// @ts-check
// The operator's page: signs in, reads the management API, shows it, and does what its buttons say.
import { pairingsView } from './pairings.js';
import { language, switchLanguage, t } from './strings.js';
import { toolsView } from './tools-view.js';
import { channelsView, conversationsView, conversationView, deliveriesView, failedView, h } from './view.js';

const REFRESH_MS = 10_000;
const main = byId('main');
const notice = byId('notice');
const signOut = byId('sign-out');

/** @type {string | undefined} */
let shown;
/** How many conversations or messages are shown: as many as were asked for. */
let limit = 50;

/** @param {string} id */
function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no #${id}`);
  return element;
}

class SignedOut extends Error {}

/**
 * @param {string} path
 * @param {RequestInit} [init]
 */
async function call(path, init) {
  const response = await fetch(path, init);
  if (response.status === 401) throw new SignedOut();
  if (response.status === 429) throw new Error(t('too_many'));
  if (!response.ok) throw new Error(t('failed', { status: response.status }));
  return response.json();
}

/** @param {string} path */
const post = (path) => call(path, { method: 'POST' });

/**
 * Does something, shows what came of it, and reads everything anew.
 * @param {() => Promise<unknown>} work
 */
async function run(work) {
  try {
    await work();
    notice.textContent = '';
    await refresh();
  } catch (error) {
    report(error);
  }
}

/** @param {unknown} error */
function report(error) {
  if (error instanceof SignedOut) return showSignIn();
  // fetch rejects with a TypeError when there is no server.
  notice.textContent = error instanceof TypeError ? t('away') : error instanceof Error ? error.message : '';
}

async function refresh() {
  if (shown === undefined) await showOverview();
  else await showConversation(shown);
  signOut.hidden = false;
}

async function showOverview() {
  const [channels, deliveries, failed, conversations, pairings, tools] = await Promise.all([
    call('/api/channels'),
    call('/api/deliveries?state=parked&limit=200'),
    call('/api/messages?state=failed&limit=200'),
    call(`/api/conversations?limit=${limit}`),
    call('/api/pairings'),
    call('/api/tools'),
  ]);
  /** @param {string} code */
  const pairing = (code) => `/api/pairings/${encodeURIComponent(code)}`;
  const people = pairingsView(pairings, {
    approve: (code) => void run(() => post(`${pairing(code)}/approve`)),
    remove: (code) => void run(() => call(pairing(code), { method: 'DELETE' })),
  });
  main.replaceChildren(
    channelsView(channels, (account, code) => void run(() => enterCode(account, code))),
    ...(people ? [people] : []),
    deliveriesView(
      deliveries,
      (id) => void run(() => post(`/api/deliveries/${encodeURIComponent(id)}/retry`)),
    ),
    failedView(
      failed,
      (conversation, id) =>
        void run(() =>
          post(
            `/api/conversations/${encodeURIComponent(conversation)}/messages/${encodeURIComponent(id)}/retry`,
          ),
        ),
    ),
    conversationsView(conversations, (id) => void go(id), moreIf(conversations.cursor)),
    toolsView(tools),
  );
}

/**
 * @param {string} account
 * @param {string} code
 */
const enterCode = (account, code) =>
  call(`/api/channels/${encodeURIComponent(account)}/code`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ code }),
  });

/** @param {string} id */
async function showConversation(id) {
  const path = `/api/conversations/${encodeURIComponent(id)}`;
  const conversation = await call(`${path}?limit=${limit}`);
  main.replaceChildren(
    conversationView(conversation, {
      back: () => void go(undefined),
      cancel: () => void run(() => post(`${path}/cancel`)),
      reset: () => {
        if (confirm(t('reset_sure'))) void run(() => post(`${path}/reset`));
      },
      earlier: moreIf(conversation.cursor),
    }),
  );
}

/** @param {unknown} cursor */
function moreIf(cursor) {
  if (cursor === undefined || limit >= 200) return undefined;
  return () => {
    limit = Math.min(200, limit * 2);
    void run(async () => undefined);
  };
}

/** @param {string | undefined} id */
function go(id) {
  shown = id;
  limit = 50;
  return run(async () => undefined);
}

function showSignIn() {
  signOut.hidden = true;
  const token = h('input', {
    type: 'password',
    id: 'token',
    autocomplete: 'current-password',
    required: true,
  });
  const form = h(
    'form',
    {
      onsubmit: (/** @type {SubmitEvent} */ event) =>
        (event.preventDefault(), void signIn(token)),
    },
    h('label', {}, t('token'), token),
    h('button', { type: 'submit' }, t('sign_in')),
  );
  main.replaceChildren(form, h('p', { className: 'soft' }, t('token_hint')));
  token.focus();
}

/** @param {HTMLElement} input */
async function signIn(input) {
  const token = input instanceof HTMLInputElement ? input.value : '';
  try {
    await call('/console/session', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    notice.textContent = '';
    await refresh();
  } catch (error) {
    if (error instanceof SignedOut) notice.textContent = t('wrong_token');
    else report(error);
  }
}

function speak() {
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
  byId('language').textContent = t('other_language');
  signOut.textContent = t('sign_out');
}

byId('language').addEventListener('click', () => {
  switchLanguage();
  speak();
  void go(shown);
});
signOut.addEventListener('click', () => void run(() => call('/console/session', { method: 'DELETE' })));
setInterval(() => {
  // Somebody who signs in or types is not disturbed, and nobody looks at a hidden page.
  if (!document.hidden && !signOut.hidden && !main.querySelector('input:focus')) refresh().catch(report);
}, REFRESH_MS);

speak();
await go(undefined);
