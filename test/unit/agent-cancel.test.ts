// Stopping a run: a cancel ends it in order and keeps the text so far; any other reason ends it at once, without a result.
import { performance } from 'node:perf_hooks';
import { describe, expect, it } from 'vitest';
import { RunInterrupted } from '../../src/agent/index.ts';
import { systemClock } from '../../src/system-clock.ts';
import type { ModelEvent } from '../../src/ports/model.ts';
import {
  brief,
  gate,
  kinds,
  merge,
  messagesOf,
  settled,
  start,
  tool,
  violationsOf,
  type Play,
  type Step,
} from '../fakes/agent.ts';

/** Streams some text, then waits for ever; ends as the contract says when it is told to. */
const stalling = (text: string): Step =>
  async function* (_request, signal): AsyncGenerator<ModelEvent> {
    if (text) yield { type: 'text', delta: text };
    if (!signal.aborted)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    const content = text ? [{ type: 'text' as const, text }] : [];
    yield {
      type: 'failed',
      stop: 'aborted',
      content,
      usage: { input: 7, output: 1, cached: 0 },
      model: 'scripted',
    };
  };

/** Likewise, but it ignores the signal. */
const deaf = (text: string): Step =>
  async function* (): AsyncGenerator<ModelEvent> {
    yield { type: 'text', delta: text };
    await new Promise(() => undefined);
  };

const forever = () => tool('forever', () => new Promise(() => undefined));
const withForever = (): Step => ({ text: 'Let me see.', calls: [['forever'], ['forever']] });

interface Phase {
  name: string;
  begin: () => Play;
  reply: string;
  history: string[];
}

const phases: Phase[] = [
  {
    name: 'before the first byte',
    begin: () => start({ script: [stalling('')], clock: systemClock }),
    reply: 'Cancelled.',
    history: ['user: hi', 'assistant: Cancelled.'],
  },
  {
    name: 'in the stream',
    begin: () => start({ script: [stalling('The answer is')], clock: systemClock }),
    reply: 'The answer is\n\n(cancelled)',
    history: ['user: hi', 'assistant: The answer is\n\n(cancelled)'],
  },
  {
    name: 'in the stream of a client that ignores the signal',
    begin: () => start({ script: [deaf('The answer is')], clock: systemClock }),
    reply: 'The answer is\n\n(cancelled)',
    history: ['user: hi', 'assistant: The answer is\n\n(cancelled)'],
  },
  {
    name: 'in a tool that ignores the signal',
    begin: () => start({ script: [withForever()], tools: [forever()], clock: systemClock }),
    reply: 'Let me see.\n\n(cancelled)',
    history: [
      'user: hi',
      'assistant: Let me see.',
      'call forever {}',
      'call forever {}',
      'error The user cancelled the run during this call: it may or may not have taken effect.',
      'error Not done: the user cancelled the run.',
      'assistant: (cancelled)',
    ],
  },
  {
    name: 'in parallel tools',
    begin: () =>
      start({
        script: [withForever()],
        tools: [{ ...forever(), execution: 'parallel' }],
        clock: systemClock,
      }),
    reply: 'Let me see.\n\n(cancelled)',
    history: [
      'user: hi',
      'assistant: Let me see.',
      'call forever {}',
      'call forever {}',
      ...Array<string>(2).fill(
        'error The user cancelled the run during this call: it may or may not have taken effect.',
      ),
      'assistant: (cancelled)',
    ],
  },
  {
    name: 'in a hook',
    begin: () =>
      start({
        script: [{ calls: [['forever']] }],
        tools: [forever()],
        hooks: { beforeToolCall: () => new Promise(() => undefined) },
        clock: systemClock,
      }),
    reply: 'Cancelled.',
    history: [
      'user: hi',
      'call forever {}',
      'error Not done: the user cancelled the run.',
      'assistant: Cancelled.',
    ],
  },
  {
    name: 'in transformContext',
    begin: () =>
      start({ hooks: { transformContext: () => new Promise(() => undefined) }, clock: systemClock }),
    reply: 'Cancelled.',
    history: ['user: hi', 'assistant: Cancelled.'],
  },
];

describe('a cancel', () => {
  it.each(phases)(
    '$name is felt within 200 ms, and the history stays valid',
    async ({ begin, reply, history }) => {
      const run = begin();
      await settled();
      await settled();
      const started = performance.now();
      run.cancel();
      const result = await run.result;
      expect(performance.now() - started).toBeLessThan(200);
      expect(result).toMatchObject({ reply, status: 'done', stop: 'aborted' });
      expect(brief(messagesOf(result))).toEqual(history);
      expect(violationsOf(messagesOf(result))).toEqual([]);
      expect(kinds(run.events).slice(-2)).toEqual(['agent_cancelled', 'agent_end']);
      expect(run.events.filter(({ type }) => type === 'turn_start').length).toBe(
        run.events.filter(({ type }) => type === 'turn_end').length,
      );
      // Nothing goes on behind it.
      const count = run.events.length;
      await settled();
      expect(run.events).toHaveLength(count);
    },
  );

  it('counts what a cancelled call used', async () => {
    const run = start({ script: [stalling('x')] });
    await settled();
    run.cancel();
    expect((await run.result).usage).toEqual({ input: 7, output: 1, cached: 0 });
  });

  it('between tools: the finished one keeps its result, the other is not made', async () => {
    const second = tool('second');
    const run = start({
      script: [{ calls: [['first'], ['second']] }],
      tools: [tool('first'), second],
      onEvent: ({ type }) => type === 'tool_execution_end' && run.cancel(),
    });
    const result = await run.result;
    expect(brief(messagesOf(result)).slice(3)).toEqual([
      'result {}',
      'error Not done: the user cancelled the run.',
      'assistant: Cancelled.',
    ]);
    expect(second.calls).toEqual([]);
  });

  it('at a turn boundary: no further call', async () => {
    const run = start({
      script: [{ text: 'Looking.', calls: [['a']] }],
      tools: [tool('a')],
      onEvent: ({ type }) => type === 'turn_end' && run.cancel(),
    });
    const result = await run.result;
    expect(run.model.requests).toHaveLength(1);
    expect(result.reply).toBe('Looking.\n\n(cancelled)');
    expect(brief(messagesOf(result)).slice(-2)).toEqual(['result {}', 'assistant: (cancelled)']);
  });

  it('after an answer, during what follows it: the answer stays in the reply', async () => {
    let asked = 0;
    const run = start({
      script: ['First.', stalling('Sec')],
      followUp: async () =>
        asked++ === 0 ? [{ message: { role: 'user', content: [{ type: 'text', text: 'x' }] } }] : [],
      onEvent: (event) => event.type === 'message_update' && event.delta === 'Sec' && run.cancel(),
    });
    expect((await run.result).reply).toBe('First.\n\nSec\n\n(cancelled)');
  });

  it('before anything: the prompts are kept, nothing runs', async () => {
    const run = start({ script: ['x'], signal: AbortSignal.abort('cancel') });
    const result = await run.result;
    expect(run.model.requests).toEqual([]);
    expect(brief(messagesOf(result))).toEqual(['user: hi', 'assistant: Cancelled.']);
  });

  it('while messages are being handed over: they are not lost', async () => {
    const handing = gate<never[] | [{ message: ReturnType<typeof messagesOf>[0]; id: string }]>();
    const run = start({ script: ['x'], steering: () => handing.promise });
    await settled();
    run.cancel();
    handing.resolve([{ message: { role: 'user', content: [{ type: 'text', text: 'late' }] }, id: 'late' }]);
    const result = await run.result;
    expect(merge(messagesOf(result)).map(({ content }) => content.length)).toEqual([2, 1]);
    expect(result.entries.map(({ id }) => id)).toEqual(['p1', 'late', undefined]);
  });

  it('speaks Chinese to who writes Chinese', async () => {
    const run = start({ script: [stalling('答案是')], language: 'zh' });
    await settled();
    run.cancel();
    expect((await run.result).reply).toBe('答案是\n\n（已取消）');
  });
});

describe('a lost lease or a drain', () => {
  it.each<[string, () => Play]>([
    ['before the first byte', () => start({ script: [stalling('')] })],
    ['in the stream', () => start({ script: [stalling('x')] })],
    ['in the stream of a deaf client', () => start({ script: [deaf('x')] })],
    ['in a tool', () => start({ script: [withForever()], tools: [forever()] })],
    [
      'in a hanging journal',
      () =>
        start({ script: [withForever()], tools: [forever()], journal: () => new Promise(() => undefined) }),
    ],
    ['while the inbox hangs', () => start({ steering: () => new Promise(() => undefined) })],
    ['in a hook', () => start({ hooks: { getApiKey: () => new Promise(() => undefined) } })],
  ])('%s: the run rejects at once and says nothing more', async (_name, begin) => {
    const run = begin();
    await settled();
    const count = run.events.length;
    run.interrupt('lost');
    await expect(run.result).rejects.toBeInstanceOf(RunInterrupted);
    await settled();
    expect(run.events).toHaveLength(count);
  });

  it('tools are told, and a tool does not start after it', async () => {
    const journal = gate();
    const second = tool('second');
    const run = start({ script: [{ calls: [['second']] }], tools: [second], journal: () => journal.promise });
    await settled();
    run.interrupt('drain');
    journal.resolve();
    await expect(run.result).rejects.toMatchObject({ cause: 'drain' });
    await settled();
    expect(second.calls).toEqual([]);

    const told = gate<unknown>();
    const listening = tool('listening', (_args, { signal }) => {
      signal.addEventListener('abort', () => told.resolve(signal.reason));
      return new Promise(() => undefined);
    });
    const other = start({ script: [{ calls: [['listening']] }], tools: [listening] });
    await settled();
    other.interrupt('lost');
    await expect(told.promise).resolves.toBe('lost');
  });

  it('leaves no timer behind', async () => {
    const run = start({ script: [withForever()], tools: [forever()] });
    await settled();
    expect(run.clock.sleepers()).toBe(1);
    run.interrupt('lost');
    await expect(run.result).rejects.toBeInstanceOf(RunInterrupted);
    expect(run.clock.sleepers()).toBe(0);
  });
});
