// @ts-check
// The chat page: opens a conversation and connects the parts. See README.md beside the channel for what the server promises.
import { Problem, createConversationApi, getSession } from './api.js';
import { createChat } from './chat.js';
import { createComposer } from './composer.js';
import { byId } from './dom.js';
import { createOutbox } from './outbox.js';
import { createScroll } from './scroll.js';
import { createSidebar } from './sidebar.js';
import { askForKey } from './sign-in.js';
import { createStatus } from './status.js';
import {
  createChatList,
  createCurrent,
  createOutgoingStore,
  preference,
  randomId,
  setPreference,
} from './store.js';
import { chooseLanguage, currentLanguage, problemText, setLanguage, t, translatePage } from './strings.js';
import { createTranscriptView } from './view.js';

const MAX_TITLE_CHARS = 60;
/** A hidden page with nothing going on lets its connection go after this long. */
const HIDDEN_MS = 60_000;
const MAX_SPOKEN_CHARS = 2_000;

/** @param {string} account @param {() => Promise<void>} signInAgain */
function createPage(account, signInAgain) {
  const chats = createChatList(account);
  const current = createCurrent(account);
  const outgoing = createOutgoingStore(account);
  const scroll = createScroll();
  const status = createStatus();
  const messages = byId('messages', HTMLElement);
  const stop = byId('stop', HTMLButtonElement);
  const earlier = byId('earlier', HTMLButtonElement);
  const title = byId('title', HTMLElement);
  const view = createTranscriptView(messages, { onRetry: sendAgain, onEdit: editAgain });
  const sidebar = createSidebar({ onOpen: open, onNew: () => open(randomId()), onRemove: remove });
  const composer = createComposer({ onSend: send });
  const outbox = createOutbox({
    store: outgoing,
    send: (message) =>
      createConversationApi(account, message.chat).send({ id: message.id, text: message.text }),
    onSent,
    onFailed(message, problem) {
      if (message.chat === chat.id) chat.transcript.update(message.id, { state: 'failed', problem });
      draw();
    },
    onWaiting(problem) {
      if (problem?.status === 401) signedOut();
      else status.outbox(problem);
    },
  });
  let chat = openChat(current.get() ?? chats.all()[0]?.id ?? randomId());
  let drawing = false;
  let stopping = '';

  /** @param {string} id */
  function openChat(id) {
    current.set(id);
    return createChat({
      account,
      id,
      outgoing,
      onChange: draw,
      onRunEvent: announce,
      onConnection(state) {
        if (state === 'signed-out') signedOut();
        else status.stream(state);
      },
      onProblem(problem) {
        if (problem?.status === 401) signedOut();
        byId('load-failed', HTMLElement).hidden = problem === undefined || chat.loaded;
        byId('load-problem', HTMLElement).textContent = problem
          ? `${t('e_load')} ${problemText(problem)}`
          : '';
      },
    });
  }

  /** @param {string} id */
  function open(id) {
    if (id !== chat.id) {
      chat.close();
      view.clear();
      chat = openChat(id);
      chat.load();
      scroll.follow();
      status.reset();
      byId('load-failed', HTMLElement).hidden = true;
    }
    draw();
    drawSidebar();
    composer.focus();
  }

  /** @param {string} id */
  function remove(id) {
    chats.remove(id);
    for (const message of outgoing.all()) if (message.chat === id) outbox.forget(message.id);
    if (id === chat.id) open(randomId());
    drawSidebar();
  }

  /** @param {string} text */
  function send(text) {
    const message = { id: randomId(), chat: chat.id, text, at: Date.now(), sent: false };
    chat.transcript.add({ ...message, state: 'sending' });
    const known = chats.all().find(({ id }) => id === chat.id);
    chats.touch({ id: chat.id, title: known?.title ?? titleOf(text), at: message.at });
    outbox.add(message);
    scroll.follow();
    draw();
    drawSidebar();
  }

  /** @param {import('./store.js').OutgoingMessage} message @param {import('./api.js').Sent} sent */
  function onSent(message, sent) {
    if (message.chat !== chat.id) return;
    const { transcript } = chat;
    if (sent.status === 'queued' || sent.status === 'duplicate') {
      transcript.update(message.id, { state: 'waiting' });
    } else {
      transcript.remove(message.id);
      if (sent.reply) transcript.notice(sent.reply);
      // A command may have changed everything (/new).
      chat.load();
    }
    draw();
  }

  /** @param {string} id */
  function sendAgain(id) {
    const message = outgoing.all().find((candidate) => candidate.id === id);
    if (!message) return;
    chat.transcript.update(id, { state: 'sending', problem: undefined });
    outbox.add(message);
    draw();
  }

  /** @param {string} id */
  function editAgain(id) {
    const message = outgoing.all().find((candidate) => candidate.id === id);
    outbox.forget(id);
    chat.transcript.remove(id);
    if (message) composer.insert(message.text);
    draw();
  }

  async function cancel() {
    const run = chat.transcript.active;
    if (run === undefined) return;
    stopping = run;
    draw();
    composer.focus();
    try {
      await chat.cancel();
    } catch (error) {
      stopping = '';
      status.say(error instanceof Problem && !error.temporary ? problemText(error) : t('e_cancel'));
      draw();
    }
  }

  function signedOut() {
    chat.pause();
    signInAgain()
      .then(() => {
        chat.load();
        chat.resume();
        outbox.nudge();
      })
      .catch((error) => console.error(error));
  }

  /** For those who listen: what happens, and the answer once, when it is complete. */
  /** @param {import('../../../src/domain/events.ts').RunEvent} event */
  function announce(event) {
    if (event.type === 'agent_start') status.announce(t('answer_started'));
    if (event.type === 'tool_execution_start') status.announce(t('using_tool', { name: event.call.name }));
    if (event.type === 'agent_end')
      status.announce(t('answer', { text: event.reply.slice(0, MAX_SPOKEN_CHARS) }));
  }

  /** At most once a frame; a hidden page gets no frames, so it is drawn at once. */
  function draw() {
    if (drawing) return;
    drawing = true;
    if (document.hidden) queueMicrotask(drawNow);
    else requestAnimationFrame(drawNow);
  }

  function drawNow() {
    drawing = false;
    const { transcript } = chat;
    const { items, active } = transcript;
    view.render(items);
    const last = items.findLast((item) => item.kind === 'assistant');
    const writing = last?.live && last.parts.at(-1)?.type === 'text';
    byId('welcome', HTMLElement).hidden = items.length > 0 || !chat.loaded;
    byId('loading', HTMLElement).hidden =
      items.length > 0 || chat.loaded || !byId('load-failed', HTMLElement).hidden;
    byId('working', HTMLElement).hidden = !transcript.busy || writing === true;
    messages.setAttribute('aria-busy', String(active !== undefined));
    earlier.hidden = transcript.cursor === undefined;
    if (stop.hidden === (active !== undefined)) {
      const focused = document.activeElement === stop;
      stop.hidden = active === undefined;
      if (focused) composer.focus();
    }
    stop.disabled = active !== undefined && stopping === active;
    scroll.settle();
  }

  function drawSidebar() {
    const all = chats.all();
    sidebar.render(all, chat.id);
    const name = all.find(({ id }) => id === chat.id)?.title;
    title.textContent = name ?? t('new_chat');
    document.title = name === undefined ? 'Lanekeeper' : `${name} · Lanekeeper`;
  }

  function redraw() {
    view.clear();
    draw();
    drawSidebar();
  }

  async function showEarlier() {
    earlier.disabled = true;
    try {
      await chat.loadEarlier();
      scroll.keepPlace(drawNow);
    } catch (error) {
      status.say(error instanceof Problem ? problemText(error) : t('e_load'));
    } finally {
      earlier.disabled = false;
    }
  }

  stop.addEventListener('click', () => void cancel().catch((error) => console.error(error)));
  earlier.addEventListener('click', () => void showEarlier().catch((error) => console.error(error)));
  byId('load-again', HTMLButtonElement).addEventListener('click', () => chat.load());
  for (const button of document.querySelectorAll('#suggestions button')) {
    button.addEventListener('click', () => send(button.textContent));
  }
  chats.onChange(drawSidebar);
  // Another tab may show the same conversation.
  outgoing.onChange((id, message) => {
    if (message && message.chat !== chat.id) return;
    const state = message?.sent ? 'waiting' : 'sending';
    if (!message) chat.transcript.remove(id);
    else chat.transcript.add({ ...message, state });
    if (message) chat.transcript.update(id, { state });
    draw();
  });
  setInterval(() => view.tick(), 1_000);

  addEventListener('online', () => {
    status.online();
    chat.resume();
    outbox.nudge();
  });
  addEventListener('offline', () => status.online());
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let hiding;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        if (!chat.transcript.busy) chat.pause();
      }, HIDDEN_MS);
    } else {
      chat.resume();
      outbox.nudge();
      draw();
    }
  });

  return {
    redraw,
    start() {
      chat.load();
      outbox.start();
      redraw();
      if (matchMedia('(pointer: fine)').matches) composer.focus();
    },
  };
}

/** @param {string} text */
function titleOf(text) {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > MAX_TITLE_CHARS ? `${line.slice(0, MAX_TITLE_CHARS - 1)}…` : line;
}

/** @param {() => void} onChange */
function setUpPreferences(onChange) {
  const language = byId('language', HTMLSelectElement);
  const theme = byId('theme', HTMLSelectElement);
  setLanguage(chooseLanguage(preference('language')));
  translatePage();
  language.value = currentLanguage();
  language.addEventListener('change', () => {
    setPreference('language', language.value);
    setLanguage(chooseLanguage(language.value));
    translatePage();
    onChange();
  });
  theme.value = document.documentElement.dataset.theme ?? 'auto';
  theme.addEventListener('change', () => {
    setPreference('theme', theme.value);
    if (theme.value === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
}

async function main() {
  /** @type {ReturnType<typeof createPage> | undefined} */
  let page;
  setUpPreferences(() => page?.redraw());
  const session = await firstAnswer();
  const wanted = new URLSearchParams(location.search).get('account');
  const account = session.accounts.find(({ name }) => name === wanted) ?? session.accounts[0];
  if (account === undefined) throw new Error('The server has no account for this page.');
  /** @type {Promise<void> | undefined} */
  let asking;
  const signInAgain = () => (asking ??= askForKey().finally(() => (asking = undefined)));
  if (!account.signed_in) await signInAgain();
  page = createPage(account.name, signInAgain);
  page.start();
}

/** The server may still be starting: asks until it answers. */
async function firstAnswer() {
  for (;;) {
    try {
      return await getSession();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      byId('load-failed', HTMLElement).hidden = false;
      byId('load-problem', HTMLElement).textContent = problemText(error);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, error.retryAfterMs ?? 2_000);
        byId('load-again', HTMLButtonElement).addEventListener(
          'click',
          () => {
            clearTimeout(timer);
            resolve(undefined);
          },
          { once: true },
        );
      });
      byId('load-failed', HTMLElement).hidden = true;
    }
  }
}

main().catch((error) => console.error(error));
