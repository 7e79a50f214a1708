// @ts-check
// Messages on their way to the server. Each has an id of its own, made here, which the server drops duplicates by: a request
// whose answer was lost is simply sent again, also after the page was closed. In order, one at a time.
import { Problem } from './api.js';

/** @typedef {import('./store.js').OutgoingMessage} OutgoingMessage */
/** @typedef {import('./api.js').Sent} Sent */

const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 20_000;

/**
 * @param {{
 *   store: { all: () => OutgoingMessage[], put: (message: OutgoingMessage) => void, remove: (id: string) => void },
 *   send: (message: OutgoingMessage) => Promise<Sent>,
 *   onSent: (message: OutgoingMessage, sent: Sent) => void,
 *   onFailed: (message: OutgoingMessage, problem: Problem) => void,
 *   onWaiting: (problem: Problem | undefined) => void,
 * }} options `onWaiting`: the oldest message can't be sent now and will be tried again; undefined when that is over.
 */
export function createOutbox({ store, send, onSent, onFailed, onWaiting }) {
  /** @type {OutgoingMessage[]} */
  const queue = store.all().filter((message) => !message.sent);
  let pumping = false;
  let failures = 0;
  /** @type {(() => void) | undefined} */
  let wakeUp;

  async function pump() {
    if (pumping) return;
    pumping = true;
    try {
      for (let message = queue[0]; message; message = queue[0]) await attempt(message);
    } finally {
      pumping = false;
    }
  }

  /** @param {OutgoingMessage} message */
  async function attempt(message) {
    /** @type {Sent} */
    let sent;
    try {
      sent = await send(message);
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem('unexpected', 400, String(error));
      // Signed out: the message waits for the key.
      if (!problem.temporary && problem.status !== 401)
        return settle(message, () => onFailed(message, problem));
      onWaiting(problem);
      const delayMs = Math.min(FIRST_DELAY_MS * 2 ** failures, MAX_DELAY_MS);
      failures += 1;
      await pause(problem.retryAfterMs ?? (problem.status === 401 ? Infinity : delayMs));
      return;
    }
    settle(message, () => {
      if (sent.status === 'queued' || sent.status === 'duplicate') store.put({ ...message, sent: true });
      else store.remove(message.id);
      onSent(message, sent);
    });
  }

  /** @param {OutgoingMessage} message @param {() => void} then */
  function settle(message, then) {
    if (failures > 0) onWaiting(undefined);
    failures = 0;
    const index = queue.indexOf(message);
    if (index === -1) return; // taken back meanwhile
    queue.splice(index, 1);
    then();
  }

  /** @param {number} ms */
  function pause(ms) {
    return new Promise((resolve) => {
      const timer = ms === Infinity ? undefined : setTimeout(resolve, ms);
      wakeUp = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }

  const start = () => void pump().catch((error) => console.error(error));

  return {
    start,
    /** @param {OutgoingMessage} message */
    add(message) {
      store.put(message);
      queue.push(message);
      start();
    },
    /** The network, or the key, is there: try now. */
    nudge() {
      failures = Math.min(failures, 1);
      wakeUp?.();
    },
    /** It won't be sent, or the history shows it: forget it. @param {string} id */
    forget(id) {
      store.remove(id);
      const index = queue.findIndex((message) => message.id === id);
      if (index > 0 || (index === 0 && !pumping)) queue.splice(index, 1);
    },
  };
}
