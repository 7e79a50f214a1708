// The page's event stream parser: the rules of the HTML standard, whatever the chunks.
import { describe, expect, test } from 'vitest';
import { createSseParser, type SseEvent } from '../../channels/web/page/sse.js';
import { formatEvent } from '../../src/http/sse.ts';

function parse(chunks: string[]): { events: SseEvent[]; retries: number[] } {
  const events: SseEvent[] = [];
  const retries: number[] = [];
  const parser = createSseParser({
    onEvent: (event) => events.push(event),
    onRetry: (ms) => retries.push(ms),
  });
  for (const chunk of chunks) parser.push(chunk);
  return { events, retries };
}

const ONE = { id: '7', event: 'message_update', data: '{"delta":"你好"}' };
const TEXT = 'event: message_update\nid: 7\ndata: {"delta":"你好"}\n\n';

describe('the event stream parser', () => {
  test.each(['\n', '\r\n', '\r'])('lines may end in %j, and chunks anywhere', (end) => {
    const text = TEXT.replaceAll('\n', end);
    expect(parse([text]).events).toEqual([ONE]);
    // The last CR of a stream may be half of a CRLF: nothing is lost by waiting for the next chunk.
    for (let at = 1; at < text.length; at++) {
      expect(parse([text.slice(0, at), text.slice(at)]).events).toEqual([ONE]);
    }
    expect(parse(text.split('')).events).toEqual([ONE]);
  });

  test('it reads what the server writes', () => {
    const sent = { id: '1-2', event: 'agent_end', data: 'two\nlines' };
    expect(parse([formatEvent(sent)]).events).toEqual([sent]);
  });

  test('an event that was cut off is dropped', () => {
    expect(parse([`${TEXT}event: agent_end\nid: 8\ndata: {"re`]).events).toEqual([ONE]);
  });

  test('comments are skipped, the id is kept for what follows, an event without data is none', () => {
    const { events } = parse([': keep-alive\n\n', 'id: 3\n\n', 'data: a\n\n', 'data\n\n', 'event: x\n\n']);
    expect(events).toEqual([
      { id: '3', event: 'message', data: 'a' },
      { id: '3', event: 'message', data: '' },
    ]);
  });

  test('a byte order mark is skipped, an id with NUL is ignored, retry is told', () => {
    const { events, retries } = parse(['\uFEFFdata: a\nid: 1\0\nretry: 250\nretry: soon\n\n']);
    expect(events).toEqual([{ id: '', event: 'message', data: 'a' }]);
    expect(retries).toEqual([250]);
  });
});
