// What tests of the model layer share: a clock whose waits end at once, a logger that remembers, and collecting a stream.
import type { Message } from '../../src/domain/messages.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { ModelClient, ModelEvent, ModelRequest } from '../../src/ports/model.ts';

export interface FakeClock extends Clock {
  /** What was waited for, in milliseconds. */
  waits: number[];
  advance(ms: number): void;
}

/** Waiting moves the time instead of taking it. */
export function fakeClock(start = 1_000_000): FakeClock {
  let now = start;
  const waits: number[] = [];
  return {
    waits,
    now: () => now,
    advance: (ms) => void (now += ms),
    sleep(ms, signal) {
      signal.throwIfAborted();
      waits.push(ms);
      now += ms;
      return Promise.resolve();
    },
  };
}

export interface LogLine {
  level: string;
  fields: Record<string, unknown>;
  message: string;
}

export function fakeLog(): Logger & { lines: LogLine[] } {
  const lines: LogLine[] = [];
  const method = (level: string) => (fields: Record<string, unknown>, message: string) =>
    void lines.push({ level, fields, message });
  const log = {
    lines,
    debug: method('debug'),
    info: method('info'),
    warn: method('warn'),
    error: method('error'),
    child: () => log,
  };
  return log;
}

export const userSays = (text: string): Message => ({ role: 'user', content: [{ type: 'text', text }] });

export const request = (more: Partial<ModelRequest> = {}): ModelRequest => ({
  system: 'You are helpful.',
  messages: [userSays('hi')],
  tools: [],
  allowTools: true,
  cacheKey: 'web:1',
  ...more,
});

export const nowTool = {
  name: 'now',
  description: 'The time.',
  parameters: { type: 'object', properties: { zone: { type: 'string' } } },
};

type End = Extract<ModelEvent, { type: 'done' | 'failed' }>;

export interface Collected {
  events: ModelEvent[];
  /** Text as a reader sees it: a reset empties it. */
  text: string;
  thinking: string;
  end: End;
}

/** Reads a stream to its end, holding it to the port's promise: one done or failed, and nothing after it. */
export async function collect(
  client: ModelClient,
  asked: ModelRequest = request(),
  signal: AbortSignal = new AbortController().signal,
): Promise<Collected> {
  const events: ModelEvent[] = [];
  let text = '';
  let thinking = '';
  let end: End | undefined;
  for await (const event of client.stream(asked, signal)) {
    if (end) throw new Error(`an event after the end: ${event.type}`);
    events.push(event);
    if (event.type === 'text') text += event.delta;
    else if (event.type === 'thinking') thinking += event.delta;
    else if (event.type === 'reset') text = thinking = '';
    else end = event;
  }
  if (!end) throw new Error('the stream had no end');
  return { events, text, thinking, end };
}

export const textIn = (end: End): string =>
  end.content.map((block) => (block.type === 'text' ? block.text : '')).join('');

export const callsIn = (end: End) => end.content.filter((block) => block.type === 'tool_call');
