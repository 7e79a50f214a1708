// @ts-check
// Server-sent events, parsed from text chunks as the HTML standard says (section 9.2.6): a chunk may end anywhere, lines end
// in CR, LF or CRLF, and what follows the last blank line of a broken stream is dropped.

/** @typedef {{ id: string, event: string, data: string }} SseEvent */

/** @param {{ onEvent: (event: SseEvent) => void, onRetry?: (ms: number) => void }} options */
export function createSseParser({ onEvent, onRetry }) {
  let rest = '';
  let skipLineFeed = false;
  let started = false;
  let id = '';
  let event = '';
  /** @type {string[]} */
  let data = [];

  /** @param {string} line */
  function take(line) {
    if (line === '') {
      if (data.length > 0) onEvent({ id, event: event || 'message', data: data.join('\n') });
      event = '';
      data = [];
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment: the server's heartbeat
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) onRetry?.(Number(value));
  }

  return {
    /** @param {string} chunk */
    push(chunk) {
      if (chunk === '') return;
      let text = chunk;
      if (!started && text.startsWith('\uFEFF')) text = text.slice(1);
      started = true;
      if (skipLineFeed && text.startsWith('\n')) text = text.slice(1);
      skipLineFeed = chunk.endsWith('\r');
      const lines = (rest + text).split(/\r\n|\r|\n/);
      rest = lines.pop() ?? '';
      for (const line of lines) take(line);
    },
  };
}
