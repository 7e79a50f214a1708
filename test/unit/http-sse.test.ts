// The event writer over a real socket: the wire format, heartbeats, slow and vanished clients, the close of the app.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import fastify from 'fastify';
import { describe, expect, test, vi } from 'vitest';
import { createTextStream } from '../../src/http/openai-text.ts';
import {
  clientSignal,
  createEventStreams,
  formatEvent,
  type EventStream,
  type EventStreamsOptions,
} from '../../src/http/sse.ts';
import { useCleanups } from '../fakes/cleanups.ts';

const { later } = useCleanups();

/** One open stream, and the raw socket of its client. */
async function open(options: EventStreamsOptions = {}) {
  const streams = createEventStreams(options);
  const app = fastify();
  app.addHook('preClose', async () => streams.closeAll());
  const opened = Promise.withResolvers<{ stream: EventStream; client: AbortSignal }>();
  app.get('/', (_request, reply) => {
    reply.header('x-from-a-hook', 'kept');
    const client = clientSignal(reply);
    opened.resolve({ stream: streams.open(reply), client });
  });
  const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
  later(() => app.close());
  const socket: Socket = connect(Number(url.port), url.hostname);
  later(async () => socket.destroy());
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
  socket.write(`GET / HTTP/1.1\r\nhost: ${url.host}\r\n\r\n`);
  return { app, streams, socket, read: () => text, ...(await opened.promise) };
}

describe('an event', () => {
  test('is an id, a name, and a data line for each line', () => {
    expect(formatEvent({ id: '7', event: 'note', data: 'a\nb\r\nc' })).toBe(
      'event: note\nid: 7\ndata: a\ndata: b\ndata: c\n\n',
    );
    expect(formatEvent({ data: { text: 'a\nb' } })).toBe('data: {"text":"a\\nb"}\n\n');
    expect(formatEvent({ id: '1\ndata: evil', event: 'x\r\ny', data: '' })).toBe(
      'event: xy\nid: 1data: evil\ndata: \n\n',
    );
  });
});

describe('a stream', () => {
  test('sends headers at once, those of hooks included, and events as they come', async () => {
    const { stream, read } = await open();
    await vi.waitFor(() => expect(read()).toMatch(/^HTTP\/1\.1 200 /));
    expect(read()).toMatch(/content-type: text\/event-stream/i);
    expect(read()).toMatch(/x-accel-buffering: no/i);
    expect(read()).toMatch(/x-from-a-hook: kept/i);
    expect(await stream.send({ id: '1', data: 'hello' })).toBe(true);
    await vi.waitFor(() => expect(read()).toContain('id: 1\ndata: hello\n\n'));
  });

  test('sends comments while nothing happens', async () => {
    const { read } = await open({ heartbeatMs: 10 });
    await vi.waitFor(() => expect(read().split(': keep-alive\n\n').length).toBeGreaterThan(3));
  });

  test('is over when its client leaves', async () => {
    const { stream, socket, streams, client } = await open();
    expect(streams.size()).toBe(1);
    socket.destroy();
    await once(stream.signal, 'abort');
    expect(await stream.send({ data: 'x' })).toBe(false);
    expect(client.aborted).toBe(true);
    expect(streams.size()).toBe(0);
  });

  test('waits for a slow client, and goes on when it reads', async () => {
    const { stream, socket, read } = await open();
    socket.pause();
    const data = 'x'.repeat(1_000_000);
    let sent = 0;
    const sending = (async () => {
      for (; sent < 40; sent += 1) await stream.send({ data });
      stream.end();
    })();
    // The buffers of the system take some; then it waits.
    let before = -1;
    await vi.waitFor(() => {
      const now = sent;
      const still = now === before;
      before = now;
      expect(still).toBe(true);
    });
    expect(sent).toBeLessThan(40);
    socket.resume();
    await sending;
    await vi.waitFor(() => expect(read().length).toBeGreaterThan(40_000_000));
  });

  test('is cut when its client reads nothing for too long', async () => {
    const { stream, socket } = await open({ stalledMs: 50 });
    socket.pause();
    const data = 'x'.repeat(1_000_000);
    while (await stream.send({ data }));
    expect(stream.signal.aborted).toBe(true);
  });

  test('does not hold up the close of the app; one that opens later ends at once', async () => {
    const { app, stream, streams } = await open();
    await app.close();
    expect(stream.signal.aborted).toBe(true);
    expect(streams.size()).toBe(0);
  });
});

describe('the text for OpenAI clients', () => {
  const base = { conversation: 'c', run: 'r', turn: 1 };
  const start = { ...base, type: 'message_start', role: 'assistant' } as const;
  const reset = { ...base, type: 'message_reset' } as const;
  const delta = (text: string) => ({ ...base, type: 'message_update', delta: text }) as const;
  const textOf = (
    events: Parameters<ReturnType<typeof createTextStream>['next']>[0][],
    answer: string,
  ): string => {
    const text = createTextStream();
    return events.map((event) => text.next(event)).join('') + text.finish(answer);
  };

  test.each([
    ['streamed', [start, delta('Hello '), delta('world')], 'Hello world', 'Hello world'],
    ['never streamed', [], 'Hello', 'Hello'],
    ['streamed in part', [start, delta('Hello')], 'Hello world', 'Hello world'],
    [
      'in two turns',
      [start, delta('Let me look.'), start, delta('It is 5.')],
      'It is 5.',
      'Let me look.\n\nIt is 5.',
    ],
    [
      'taken back, then the same',
      [start, delta('Hello '), reset, delta('Hel'), delta('lo world')],
      'Hello world',
      'Hello world',
    ],
    [
      'taken back, then another',
      [start, delta('Hello '), reset, delta('Good'), delta(' day')],
      'Good day',
      'Hello \n\nGood day',
    ],
    ['cut off by an error', [start, delta('Half a')], 'Sorry.', 'Half a\n\nSorry.'],
    ['followed by nothing', [start, delta('Hello ')], '', 'Hello '],
  ] as const)('%s', (_name, events, answer, expected) => {
    expect(textOf([...events], answer)).toBe(expected);
  });
});
