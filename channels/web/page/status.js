// @ts-check
// The line above the message box that says how the connection is, and the voice for screen readers.
import { byId } from './dom.js';
import { problemText, t } from './strings.js';

/** A connection that comes back sooner is not worth a word. */
const PATIENCE_MS = 1_200;
const SHOWN_MS = 4_000;

export function createStatus() {
  const line = byId('connection', HTMLElement);
  const announcer = byId('announcer', HTMLElement);
  let connected = true;
  /** @type {import('./api.js').Problem | undefined} */
  let problem;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let spoken = '';

  function trouble() {
    if (!navigator.onLine) return t('offline');
    if (problem && problem.status !== 0) return problemText(problem);
    if (!connected) return t('reconnecting');
    return problem ? problemText(problem) : '';
  }

  /** @param {string} text @param {string} [tone] */
  function show(text, tone = 'trouble') {
    line.textContent = text;
    line.dataset.tone = tone;
    line.hidden = text === '';
  }

  function update() {
    clearTimeout(timer);
    const text = trouble();
    if (text !== '') {
      timer = setTimeout(() => show(trouble()), line.hidden ? PATIENCE_MS : 0);
    } else if (!line.hidden && line.dataset.tone === 'trouble') {
      show(t('connected'), 'good');
      timer = setTimeout(() => show(''), SHOWN_MS / 2);
    }
  }

  return {
    /** @param {import('./stream.js').StreamState} state */
    stream(state) {
      connected = state === 'open';
      update();
    },
    /** @param {import('./api.js').Problem | undefined} value */
    outbox(value) {
      problem = value;
      update();
    },
    online: update,
    /** Another conversation: its connection is a new one. */
    reset() {
      connected = true;
      update();
    },
    /** Something that went wrong once. @param {string} text */
    say(text) {
      clearTimeout(timer);
      show(text, 'once');
      timer = setTimeout(() => show(trouble()), SHOWN_MS);
    },
    /** @param {string} text */
    announce(text) {
      // The same sentence twice would not be read twice.
      spoken = text === spoken ? `${text}\u00a0` : text;
      announcer.textContent = spoken;
    },
  };
}
