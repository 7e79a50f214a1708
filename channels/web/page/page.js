// @ts-check
// The page of one account: the open conversation, the list of the others, the message box, and what passes between them.
import { Problem, createConversationApi, uploadFile } from './api.js';
import { createChat } from './chat.js';
import { createComposer } from './composer.js';
import { byId } from './dom.js';
import { createFileUrl } from './file-view.js';
import { createOutbox } from './outbox.js';
import { createScroll } from './scroll.js';
import { createSidebar } from './sidebar.js';
import { createStatus } from './status.js';
import { createChatList, createCurrent, createOutgoingStore, randomId } from './store.js';
import { problemText, t } from './strings.js';
import { createTranscriptView } from './view.js';

const MAX_TITLE_CHARS = 60;
/** A hidden page with nothing going on lets its connection go after this long. */
const HIDDEN_MS = 60_000;
const MAX_SPOKEN_CHARS = 2_000;
const COMMAND = /^[/／][a-z]+$/i;

/** @param {string} account @param {() => Promise<void>} signInAgain */
export function createPage(account, signInAgain) {
  const chats = createChatList(account);
  const current = createCurrent(account);
  const outgoing = createOutgoingStore(account);
  const scroll = createScroll();
  const status = createStatus();
  const messages = byId('messages', HTMLElement);
  const stop = byId('stop', HTMLButtonElement);
  const earlier = byId('earlier', HTMLButtonElement);
  const title = byId('title', HTMLElement);
  const view = createTranscriptView(messages, {
    onRetry: sendAgain,
    onEdit: editAgain,
    fileUrl: createFileUrl(account),
  });
  const sidebar = createSidebar({ onOpen: open, onNew: () => open(randomId()), onRemove: remove });
  const composer = createComposer({ onSend: send, upload });
  const outbox = createOutbox({
    store: outgoing,
    send: ({ id, chat: to, text, files }) =>
      createConversationApi(account, to).send({ id, text, ...(files?.length ? { files } : {}) }),
    onSent,
    onFailed(message, problem) {
      if (message.chat === chat.id) chat.transcript.refused(message.id, problem);
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

  /** @param {string} text @param {import('./attach.js').KeptFile[]} [files] */
  function send(text, files = []) {
    const message = { id: randomId(), chat: chat.id, text, files, at: Date.now(), sent: false };
    chat.transcript.add({ ...message, state: 'sending' });
    const known = chats.all().find(({ id }) => id === chat.id);
    // A command is no title, and alone no conversation.
    if (known || !COMMAND.test(text)) {
      chats.touch({
        id: chat.id,
        title: known?.title ?? titleOf(text || (files[0]?.name ?? '…')),
        at: message.at,
      });
    }
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
      transcript.sent(message.id);
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
    chat.transcript.remove(id);
    chat.transcript.add({ ...message, state: 'sending' });
    outbox.add(message);
    draw();
  }

  /** @param {string} id */
  function editAgain(id) {
    const message = outgoing.all().find((candidate) => candidate.id === id);
    outbox.forget(id);
    chat.transcript.remove(id);
    if (message) composer.insert(message.text, message.files ?? []);
    draw();
  }

  /** @param {File} file */
  async function upload(file) {
    try {
      return await uploadFile(account, file);
    } catch (error) {
      if (error instanceof Problem && error.status === 401) signedOut();
      throw error;
    }
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
    byId('welcome', HTMLElement).hidden = items.length > 0 || !chat.loaded;
    byId('loading', HTMLElement).hidden =
      items.length > 0 || chat.loaded || !byId('load-failed', HTMLElement).hidden;
    byId('working', HTMLElement).hidden = !transcript.busy || transcript.moving;
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
    if (message?.sent) chat.transcript.sent(id);
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
