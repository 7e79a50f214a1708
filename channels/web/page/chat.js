// @ts-check
// One open conversation: its transcript, loaded and then kept up to date by the event stream. Loading first and subscribing
// after the event id that came with it leaves no gap; what arrives while the history is read again waits until it is there.
import { Problem, createConversationApi } from './api.js';
import { openStream } from './stream.js';
import { createTranscript } from './transcript.js';

/** @typedef {import('../../../src/domain/events.ts').RunEvent} RunEvent */
/** @typedef {import('./store.js').OutgoingMessage} OutgoingMessage */
/** @typedef {{ all: () => OutgoingMessage[], remove: (id: string) => void }} OutgoingStore */

const RETRY_MS = 2_000;

/**
 * @param {{
 *   account: string,
 *   id: string,
 *   outgoing: OutgoingStore,
 *   onChange: () => void,
 *   onRunEvent: (event: RunEvent) => void,
 *   onConnection: (state: import('./stream.js').StreamState) => void,
 *   onProblem: (problem: Problem | undefined) => void,
 * }} options `onProblem`: the conversation could not be loaded; undefined when it is there
 */
export function createChat({ account, id, outgoing, onChange, onRunEvent, onConnection, onProblem }) {
  const api = createConversationApi(account, id);
  const transcript = createTranscript();
  /** @type {ReturnType<typeof openStream> | undefined} */
  let stream;
  /** @type {RunEvent[] | undefined} events that wait for a load to end */
  let held;
  let loaded = false;
  let closed = false;
  let loadAgain = false;
  let after = '';
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let retry;

  const mine = () => outgoing.all().filter((message) => message.chat === id);

  for (const message of mine()) transcript.add({ ...message, state: message.sent ? 'waiting' : 'sending' });

  /** Reads the history and the state; on a failure that may pass, again and again. */
  async function load() {
    clearTimeout(retry);
    if (held) {
      loadAgain = true;
      return;
    }
    held = [];
    const sentBefore = mine().filter((message) => message.sent);
    try {
      const page = await api.load();
      if (closed) return;
      transcript.load(page);
      for (const message of sentBefore) {
        // In the history, or gone with a reset: this browser need not remember it any longer.
        if (!transcript.isMerged(message.id) && (page.pending > 0 || page.run !== undefined)) continue;
        outgoing.remove(message.id);
        transcript.remove(message.id);
      }
      after ||= page.event_id;
      loaded = true;
      onProblem(undefined);
    } catch (error) {
      if (closed) return;
      const problem = error instanceof Problem ? error : new Problem('unexpected', 400, String(error));
      if (problem.code === 'unexpected') console.error(error);
      onProblem(problem);
      if (problem.temporary) retry = setTimeout(loadNow, problem.retryAfterMs ?? RETRY_MS);
    } finally {
      const events = held ?? [];
      held = undefined;
      for (const event of events) take(event);
      onChange();
    }
    if (loaded && !stream) connect();
    if (loadAgain) {
      loadAgain = false;
      await load();
    }
  }

  const loadNow = () => void load().catch((error) => console.error(error));

  function connect() {
    if (closed || stream) return;
    stream = openStream({
      url: api.eventsUrl,
      after,
      onState: onConnection,
      onEvent({ event, data }) {
        // The server lost the thread (a restart, or we were away too long): its state is the truth.
        if (event === 'resync') loadNow();
        else take(JSON.parse(data));
      },
    });
  }

  /** @param {RunEvent} event */
  function take(event) {
    if (held) {
      held.push(event);
      return;
    }
    const readAgain = transcript.apply(event);
    if (event.type === 'agent_end') {
      for (const message of mine()) if (transcript.has(message.id)) outgoing.remove(message.id);
    }
    if (readAgain) loadNow();
    onRunEvent(event);
    onChange();
  }

  return {
    id,
    transcript,
    load: loadNow,
    async loadEarlier() {
      const cursor = transcript.cursor;
      if (cursor === undefined) return;
      const page = await api.load(cursor);
      if (!closed && transcript.cursor === cursor) transcript.prepend(page);
    },
    cancel: () => api.cancel(),
    get loaded() {
      return loaded;
    },
    /** Lets go of the connection (browsers allow only a few per server); resume() goes on where it was. */
    pause() {
      after = stream?.lastId ?? after;
      stream?.close();
      stream = undefined;
    },
    resume() {
      if (!loaded) loadNow();
      else if (stream) stream.nudge();
      else connect();
    },
    close() {
      closed = true;
      clearTimeout(retry);
      stream?.close();
    },
  };
}
