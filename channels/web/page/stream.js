// @ts-check
// The event stream of one conversation: fetch and a reader instead of EventSource, which gives up for good on an HTTP error
// (a server that is just starting) and can't tell a silent connection from a dead one. It reconnects with Last-Event-ID until
// it is closed, so that a drop neither loses nor repeats an event.
import { createSseParser } from './sse.js';

const FIRST_DELAY_MS = 300;
const MAX_DELAY_MS = 10_000;
/** The server sends a comment every 15 s; a connection that says nothing for this long is dead. */
const SILENCE_MS = 40_000;

/** @typedef {'open' | 'reconnecting' | 'signed-out' | 'gone'} StreamState */

/**
 * @param {{
 *   url: string,
 *   after: string,
 *   onEvent: (event: import('./sse.js').SseEvent) => void,
 *   onState: (state: StreamState) => void,
 *   fetch?: typeof globalThis.fetch,
 *   silenceMs?: number,
 * }} options
 */
export function openStream({
  url,
  after,
  onEvent,
  onState,
  fetch = globalThis.fetch,
  silenceMs = SILENCE_MS,
}) {
  const closed = new AbortController();
  let lastId = after;
  let failures = 0;
  let serverDelayMs = FIRST_DELAY_MS;
  /** @type {(() => void) | undefined} */
  let wakeUp;

  /** @param {Response} response @param {AbortController} connection */
  async function read(response, connection) {
    if (!response.body) return;
    const parser = createSseParser({
      onEvent(event) {
        if (closed.signal.aborted) return;
        lastId = event.id;
        onEvent(event);
      },
      onRetry: (ms) => (serverDelayMs = Math.min(ms, MAX_DELAY_MS)),
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let silence = setTimeout(() => connection.abort(), silenceMs);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        failures = 0;
        clearTimeout(silence);
        silence = setTimeout(() => connection.abort(), silenceMs);
        parser.push(value);
      }
    } finally {
      clearTimeout(silence);
    }
  }

  /** One connection, from request to end. @returns {Promise<boolean>} whether to try again */
  async function connect() {
    const connection = new AbortController();
    const abort = () => connection.abort();
    closed.signal.addEventListener('abort', abort);
    const silence = setTimeout(abort, silenceMs);
    try {
      const response = await fetch(url, {
        headers: { accept: 'text/event-stream', 'last-event-id': lastId },
        cache: 'no-store',
        signal: connection.signal,
      });
      clearTimeout(silence);
      if (response.status === 401) return stop('signed-out');
      if (response.status === 403 || response.status === 404) return stop('gone');
      if (!response.ok) return true;
      onState('open');
      await read(response, connection);
      return true;
    } finally {
      clearTimeout(silence);
      closed.signal.removeEventListener('abort', abort);
      connection.abort();
    }
  }

  /** @param {StreamState} state */
  function stop(state) {
    if (!closed.signal.aborted) onState(state);
    return false;
  }

  async function run() {
    for (;;) {
      const again = await connect().catch((error) => {
        if (!closed.signal.aborted && !isConnectionError(error)) console.error(error);
        return true;
      });
      if (!again || closed.signal.aborted) return;
      onState('reconnecting');
      await pause(Math.min(serverDelayMs * 2 ** failures, MAX_DELAY_MS));
      failures += 1;
      if (closed.signal.aborted) return;
    }
  }

  /** Half to one and a half times `ms`, so that many pages don't return at the same moment. @param {number} ms */
  function pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms * (0.5 + Math.random()));
      wakeUp = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
      closed.signal.addEventListener('abort', wakeUp, { once: true });
    });
  }

  run().catch((error) => console.error(error));

  return {
    /** Skips the wait before the next attempt: the network is back, or somebody looks at the page again. */
    nudge() {
      failures = 0;
      wakeUp?.();
    },
    close() {
      closed.abort();
    },
    get lastId() {
      return lastId;
    },
  };
}

/** @param {unknown} error */
const isConnectionError = (error) =>
  error instanceof TypeError || (error instanceof DOMException && error.name === 'AbortError');
