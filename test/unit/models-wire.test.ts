// The bytes of an answer as careless servers and proxies send them: other line ends, comments, characters cut in half,
// compressed, without an end, under a wrong name. Each is read by both clients as the same answer.
import type { ServerResponse } from 'node:http';
import { once } from 'node:events';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAnthropicClient } from '../../src/models/anthropic/client.ts';
import { createOpenAIClient } from '../../src/models/openai/client.ts';
import { resolveEntry } from '../../src/models/settings.ts';
import { createEventParser } from '../../src/models/sse.ts';
import { callsIn, collect, fakeLog, request, textIn } from '../fakes/models.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startWebServer } from '../fakes/web-server.ts';

type Respond = (response: ServerResponse) => Promise<void> | void;

let respond: Respond = () => undefined;
let url = '';
const { track } = useCleanups(afterAll);
beforeAll(async () => {
  const server = await startWebServer((incoming, response) => {
    incoming.resume().once('end', () => {
      Promise.resolve(respond(response)).catch(() => response.destroy());
    });
  });
  ({ url } = track(server));
});

const TEXT = '你好 👋 é';
const ARGUMENTS = '{"city":"北京"}';

const clients = {
  openai: (idle_timeout_ms = 5_000) =>
    createOpenAIClient(
      resolveEntry('main', { provider: 'openai', model: 'm', base_url: url, idle_timeout_ms }),
      { log: fakeLog() },
    ),
  anthropic: (idle_timeout_ms = 5_000) =>
    createAnthropicClient(
      resolveEntry('main', { provider: 'anthropic', model: 'm', base_url: url, idle_timeout_ms }),
    ),
};

const ANSWERS = {
  openai: [
    { choices: [{ index: 0, delta: { role: 'assistant', content: '你好' } }] },
    { choices: [{ index: 0, delta: { content: ' 👋 é' } }] },
    {
      choices: [
        {
          index: 0,
          delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'now', arguments: ARGUMENTS } }] },
        },
      ],
    },
    { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
    { choices: [], usage: { prompt_tokens: 7, completion_tokens: 5 } },
  ],
  anthropic: [
    { type: 'message_start', message: { usage: { input_tokens: 7, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '你好' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: ' 👋 é' } },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'content_block_start',
      index: 1,
      content_block: { type: 'tool_use', id: 'a', name: 'now', input: {} },
    },
    { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: ARGUMENTS } },
    { type: 'content_block_stop', index: 1 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } },
    { type: 'message_stop' },
  ],
};

const WHOLE = {
  openai: {
    choices: [
      {
        index: 0,
        finish_reason: 'tool_calls',
        message: {
          role: 'assistant',
          content: TEXT,
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'now', arguments: ARGUMENTS } }],
        },
      },
    ],
    usage: { prompt_tokens: 7, completion_tokens: 5 },
  },
  anthropic: {
    type: 'message',
    role: 'assistant',
    content: [
      { type: 'text', text: TEXT },
      { type: 'tool_use', id: 'a', name: 'now', input: { city: '北京' } },
    ],
    stop_reason: 'tool_use',
    usage: { input_tokens: 7, output_tokens: 5 },
  },
};

const SSE = { 'content-type': 'text/event-stream' };

/** One event after the other, ended by `end`; [DONE] at last, as OpenAI has it. */
const events = (vendor: 'openai' | 'anthropic', end = '\n\n', prefix = ''): string =>
  [...ANSWERS[vendor].map((event) => JSON.stringify(event)), ...(vendor === 'openai' ? ['[DONE]'] : [])]
    .map((data) => `${prefix}data: ${data}${end}`)
    .join('');

const whole =
  (body: string | Buffer, headers: Record<string, string> = SSE): Respond =>
  (response) => {
    response.writeHead(200, headers);
    response.end(body);
  };

/** Each piece in a packet of its own. */
const pieces =
  (list: Buffer[], headers: Record<string, string> = SSE): Respond =>
  async (response) => {
    response.writeHead(200, headers);
    response.socket?.setNoDelay(true);
    for (const piece of list)
      await new Promise<void>((resolve) => void response.write(piece, () => resolve()));
    response.end();
  };

describe.each(['openai', 'anthropic'] as const)('%s', (vendor) => {
  const read = (answer: Respond) => {
    respond = answer;
    return collect(clients[vendor](), request({ apiKey: 'key' }));
  };

  it.each<[string, () => Respond]>([
    ['CRLF', () => whole(events(vendor, '\r\n\r\n'))],
    ['CR alone', () => whole(events(vendor, '\r\r'))],
    [
      'a CRLF cut in two',
      () =>
        pieces(
          events(vendor, '\r\n\r\n')
            .split(/(?<=\r)/)
            .map((part) => Buffer.from(part)),
        ),
    ],
    ['no space after the colon', () => whole(events(vendor).replaceAll('data: ', 'data:'))],
    ['a byte order mark', () => whole(`\uFEFF${events(vendor)}`)],
    [
      'comments, ids and retries between',
      () => whole(events(vendor, '\n\n', ': OPENROUTER PROCESSING\n\nid: 7\nretry: 3000\n')),
    ],
    [
      'pings in every form',
      () =>
        whole(
          events(
            vendor,
            '\n\n',
            'event: ping\ndata: {"type":"ping"}\n\ndata:\n\nevent: keepalive\n\ndata: ping\n\n:\n\n',
          ),
        ),
    ],
    ['one line end between events instead of two', () => whole(events(vendor, '\n'))],
    [
      'no line end after the last event',
      () =>
        whole(
          events(vendor)
            .replace(/(?:data: \[DONE\]|data: \{"type":"message_stop"\})?\s*$/, '')
            .trimEnd(),
        ),
    ],
    [
      'characters cut in half, byte by byte',
      () => pieces([...Buffer.from(events(vendor))].map((byte) => Buffer.from([byte]))),
    ],
    ['compressed', () => whole(gzipSync(events(vendor)), { ...SSE, 'content-encoding': 'gzip' })],
    ['events without a content type', () => whole(events(vendor), {})],
    ['events under the name of JSON', () => whole(events(vendor), { 'content-type': 'application/json' })],
    [
      'events under the name of HTML',
      () => whole(events(vendor), { 'content-type': 'text/html; charset=utf-8' }),
    ],
    [
      'the whole answer as JSON',
      () => whole(JSON.stringify(WHOLE[vendor]), { 'content-type': 'application/json' }),
    ],
    [
      'the whole answer as JSON, spaced out, under the name of events',
      () => whole(JSON.stringify(WHOLE[vendor], null, 2)),
    ],
    [
      'the whole answer as JSON after blanks that keep the connection alive',
      () =>
        pieces(
          ['\n', ' \n', JSON.stringify(WHOLE[vendor])].map((part) => Buffer.from(part)),
          {
            'content-type': 'application/json',
          },
        ),
    ],
    [
      'the whole answer as JSON, cut in the middle of a character',
      () => {
        const bytes = Buffer.from(JSON.stringify(WHOLE[vendor]));
        const at = bytes.indexOf(Buffer.from('你')) + 1;
        return pieces([bytes.subarray(0, at), bytes.subarray(at)], { 'content-type': 'application/json' });
      },
    ],
  ])('%s', async (_, answer) => {
    const { end, text } = await read(answer());
    expect(end).toMatchObject({ type: 'done', stop: 'tool_use', usage: { input: 7, output: 5 } });
    expect({ shown: text, kept: textIn(end) }).toEqual({ shown: TEXT, kept: TEXT });
    expect(callsIn(end)).toMatchObject([{ id: 'a', name: 'now', arguments: ARGUMENTS }]);
  });

  it.each<[string, string, string, object]>([
    [
      'an error as JSON under the name of events',
      '{"error":{"message":"Rate limit reached for requests","code":"rate_limit_exceeded"}}',
      'text/event-stream',
      { kind: 'rate_limit', retryable: true },
    ],
    [
      'an error in a list',
      '[{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}]',
      'application/json',
      { kind: 'rate_limit', status: 429 },
    ],
    [
      'an error as an event named so, without a name in it',
      'event: error\ndata: {"message":"Rate limit reached","code":"rate_limit_exceeded"}\n\n',
      'text/event-stream',
      { kind: 'rate_limit' },
    ],
    [
      'an HTML page under the name of events',
      '<!DOCTYPE html><html><body><h1>Sign in</h1></body></html>',
      'text/event-stream',
      { kind: 'network', retryable: true, message: expect.stringContaining('Sign in') },
    ],
    [
      'an event that is cut off',
      'data: {"choices":[{"del',
      'text/event-stream',
      { kind: 'network', retryable: true },
    ],
    ['an event that is no JSON', 'data: {"choices": tru}\n\n', 'text/event-stream', { kind: 'network' }],
  ])('%s is a failure', async (_, body, type, error) => {
    const { end } = await read(whole(body, { 'content-type': type }));
    expect(end).toMatchObject({ type: 'failed', stop: 'error', error });
  });

  it('what came in the same packet as an error is shown before it', async () => {
    const first = ANSWERS[vendor].slice(0, vendor === 'openai' ? 1 : 2);
    const sent = [...first, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }];
    const { end, text } = await read(
      whole(sent.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')),
    );
    expect(end).toMatchObject({ type: 'failed', error: { kind: 'overloaded' } });
    expect({ shown: text, kept: textIn(end) }).toEqual({ shown: '你好', kept: '你好' });
  });

  it('an answer that has ended is not waited for, though the connection stays open and nobody says so', async () => {
    const patient = { openai: clients.openai(60_000), anthropic: clients.anthropic(60_000) }[vendor];
    respond = (response) => {
      response.writeHead(200, SSE);
      response.write(events(vendor).replace(/(?:data: \[DONE\]|data: \{"type":"message_stop"\})\n\n$/, ''));
    };
    const { end } = await collect(patient, request({ apiKey: 'key' }));
    expect(end).toMatchObject({ type: 'done', stop: 'tool_use', usage: { input: 7, output: 5 } });
  });

  it('an endless error page is not read to its end', async () => {
    const { end } = await read(async (response) => {
      response.writeHead(502, { 'content-type': 'text/html' });
      const page = Buffer.alloc(65_536, 'x');
      const closed = once(response, 'close');
      while (!response.destroyed)
        await Promise.race([
          closed,
          new Promise<void>((resolve) => void response.write(page, () => resolve())),
        ]);
    });
    expect(end).toMatchObject({ type: 'failed', error: { kind: 'overloaded', status: 502 } });
  });
});

describe('events', () => {
  const parse = (...parts: string[]) => {
    const parser = createEventParser();
    return [...parts.flatMap((part) => parser.push(part)), ...parser.end()];
  };

  it.each<[string, string[], [string, string][]]>([
    ['a name and several lines of data', ['event: a\ndata: 1\ndata: 2\n\n'], [['a', '1\n2']]],
    ['a field without a colon', ['data\n\n'], [['', '']]],
    ['fields that nobody knows', ['dat: 1\nx: 2\ndata: 3\n\n'], [['', '3']]],
    [
      'a name is for one event',
      ['event: a\ndata: 1\n\ndata: 2\n\n'],
      [
        ['a', '1'],
        ['', '2'],
      ],
    ],
    ['a name without data is no event', ['event: a\n\ndata: 1\n\n'], [['', '1']]],
    ['one space after the colon is taken off', ['data:  1\n\n'], [['', ' 1']]],
    ['what stands at the end without a line end', ['data: 1'], [['', '1']]],
    [
      'a CR at the end of one piece, the LF at the start of the next',
      ['data: 1\r', '\n\r', '\ndata: 2\r\n\r\n'],
      [
        ['', '1'],
        ['', '2'],
      ],
    ],
    ['a CR at the end of one piece, and an empty one', ['data: 1\r', '', '\ndata: 2\n\n'], [['', '1\n2']]],
  ])('%s', (_, parts, wanted) => {
    expect(parse(...parts).map(({ event, data }) => [event, data])).toEqual(wanted);
  });
});
