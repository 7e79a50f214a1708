// A run from its messages to its end: turns, events, journal, and the ends that are not normal.
import { describe, expect, it } from 'vitest';
import type { ModelErrorKind } from '../../src/ports/model.ts';
import { fail, success } from '../../src/ports/tool.ts';
import { assistant, brief, kinds, messagesOf, play, steps, tool, user, type Step } from '../fakes/agent.ts';

const echo = () => tool('echo');

describe('a run', () => {
  it('answers', async () => {
    const { result, events, writes, model } = await play({
      script: ['Hello.'],
      messages: [user('x'), assistant('y')],
    });
    expect(result).toMatchObject({ reply: 'Hello.', status: 'done', stop: 'stop', turns: 1 });
    expect(result.usage).toEqual({ input: 10, output: 5, cached: 0 });
    expect(brief(messagesOf(result))).toEqual(['user: hi', 'assistant: Hello.']);
    expect(result.entries[0]).toMatchObject({ id: 'p1', at: expect.any(Number) });
    expect(result.entries[1]).toMatchObject({ model: 'scripted', stop: 'stop', at: expect.any(Number) });
    expect(kinds(events)).toEqual([
      'agent_start',
      'message_start',
      'message_end',
      'turn_start',
      'message_start',
      'message_end',
      'turn_end',
      'agent_end',
    ]);
    expect(events.flatMap((event) => (event.type === 'message_update' ? [event.delta] : [])).join('')).toBe(
      'Hello.',
    );
    expect(events.every((event) => event.conversation === 'test:chat' && event.run === 'run1')).toBe(true);
    expect(brief(model.requests[0]!.messages)).toEqual(['user: x', 'assistant: y', 'user: hi']);
    // The commit follows: nothing is journaled before it.
    expect(writes).toEqual([]);
  });

  it('calls tools, turn by turn', async () => {
    const { result, events, writes, model } = await play({
      script: [
        { text: 'Let me see.', calls: [['echo', { n: 1 }]] },
        { calls: [['echo', { n: 2 }]] },
        'Done.',
      ],
      tools: [echo()],
    });
    expect(brief(messagesOf(result))).toEqual([
      'user: hi',
      'assistant: Let me see.',
      'call echo {"n":1}',
      'result {"n":1}',
      'call echo {"n":2}',
      'result {"n":2}',
      'assistant: Done.',
    ]);
    expect(result).toMatchObject({ reply: 'Done.', turns: 3, usage: { input: 30, output: 15 } });
    expect(model.requests.map(({ messages }) => messages.length)).toEqual([1, 3, 5]);
    expect(events.filter(({ type }) => type === 'turn_start').map(({ turn }) => turn)).toEqual([1, 2, 3]);
    expect(kinds(events).slice(3, 9)).toEqual([
      'turn_start',
      'message_start',
      'message_end',
      'tool_execution_start',
      'tool_execution_end',
      'turn_end',
    ]);
    // The assistant's message and the start before the tool runs, its result as soon as it is there.
    expect(writes.map((entries) => entries.map(({ kind }) => kind))).toEqual([
      ['steered', 'assistant', 'tool_start'],
      ['tool_result'],
      ['assistant', 'tool_start'],
      ['tool_result'],
    ]);
    expect(steps(writes)[0]).toBe('steered p1');
  });

  it('goes by the calls, not by the finish reason', async () => {
    const called = echo();
    const { result } = await play({
      script: [
        { calls: [['echo', {}]], stop: 'stop' },
        { text: 'No call.', stop: 'tool_use' },
      ],
      tools: [called],
    });
    expect(called.calls).toHaveLength(1);
    expect(result).toMatchObject({ reply: 'No call.', turns: 2 });
  });

  it('passes on what the model sends: reasoning, resets, progress', async () => {
    const { result, events } = await play({
      script: [
        async function* () {
          yield { type: 'thinking', delta: 'hmm' } as const;
          yield { type: 'text', delta: 'Hello ' } as const;
          yield { type: 'reset' } as const;
          yield { type: 'text', delta: 'Hello world' } as const;
          const content = [
            { type: 'thinking', thinking: 'hmm', signature: 's' } as const,
            { type: 'text', text: 'Hello world' } as const,
          ];
          yield { type: 'done', content, stop: 'stop', model: 'other' } as const;
        },
      ],
    });
    expect(events.filter(({ turn }) => turn === 1).map(({ type }) => type)).toEqual([
      'turn_start',
      'message_start',
      'reasoning_update',
      'message_update',
      'message_reset',
      'message_update',
      'message_end',
      'turn_end',
      'agent_end',
    ]);
    expect(result.entries.at(-1)).toMatchObject({
      model: 'other',
      message: { content: [{ signature: 's' }, { type: 'text' }] },
    });
  });

  it('offers the tools sorted by name, the same in each turn; not those for afterwards', async () => {
    const after = tool('after', undefined, { stage: 'post_process' });
    const { model } = await play({
      script: [{ calls: [['b', {}]] }, 'ok'],
      tools: [tool('b'), after, tool('a')],
    });
    expect(model.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual([
      ['a', 'b'],
      ['a', 'b'],
    ]);
  });

  it('gives calls without an id, or with one that was used, an id of their own', async () => {
    const { result } = await play({
      messages: [
        user('before'),
        { role: 'assistant', content: [{ type: 'tool_use', id: 'call_0', name: 'echo', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_0', content: 'x' }] },
        assistant('ok'),
      ],
      script: [
        {
          calls: [
            ['echo', {}, 'call_0'],
            ['echo', {}, 'call_0'],
            ['echo', {}, ''],
          ],
        },
        { calls: [['echo', {}, 'call_0']] },
        'ok',
      ],
      tools: [echo()],
    });
    const ids = messagesOf(result).flatMap(({ content }) =>
      content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : [])),
    );
    expect(new Set(ids).size).toBe(4);
    expect(ids).not.toContain('call_0');
  });
});

describe('tool results', () => {
  it.each<[string, Step, string]>([
    ['an unknown tool', { calls: [['other', {}]] }, 'error There is no tool "other". Tools: echo.'],
    [
      'cut-off arguments',
      { calls: [['echo', '{"a":"x']], stop: 'length' },
      'error The arguments of this call were cut off',
    ],
    ['prose for arguments', { calls: [['echo', 'please']] }, 'error The arguments must be one JSON object'],
  ])('%s gives the model an error', async (_name, step, wanted) => {
    const called = echo();
    const { result } = await play({ script: [step, 'ok'], tools: [called] });
    expect(brief(messagesOf(result))[2]).toContain(wanted);
    expect(called.calls).toEqual([]);
    expect(result.reply).toBe('ok');
  });

  it('keeps the results of calls that fail, and of calls that say nothing', async () => {
    const failing = tool('failing', () => Promise.reject(new Error('disk full')));
    const throwing = tool('throwing', () => {
      throw new TypeError('bad');
    });
    const empty = tool('empty', async () => success(''));
    const odd = tool('odd', async () => undefined as never);
    const refusing = tool('refusing', async () => fail('no such file'));
    const tools = [failing, throwing, empty, odd, refusing];
    const { result } = await play({ script: [{ calls: tools.map(({ name }) => [name]) }, 'ok'], tools });
    expect(brief(messagesOf(result)).slice(6, 11)).toEqual([
      'error The tool failing failed: disk full',
      'error The tool throwing failed: bad',
      'result (no output)',
      'error The tool odd gave no usable result.',
      'error no such file',
    ]);
  });

  it('are cut to 50,000 characters for the run, to 20,000 for the history', async () => {
    const long = tool('long', async () => success('x'.repeat(200_000)));
    const { result, model } = await play({ script: [{ calls: [['long']] }, 'ok'], tools: [long] });
    const seen = model.requests[1]!.messages[2]!.content[0];
    const kept = messagesOf(result)[2]!.content[0];
    const length = (block: typeof seen) => (block?.type === 'tool_result' ? block.content.length : 0);
    expect(length(seen)).toBeLessThanOrEqual(50_000);
    expect(length(seen)).toBeGreaterThan(49_900);
    expect(length(kept)).toBeLessThanOrEqual(20_000);
    expect(length(kept)).toBeGreaterThan(19_900);
  });

  it('end the run if all of a batch say so', async () => {
    const last = tool('last', async () => success('All set.', { terminate: true }));
    const both = await play({ script: [{ calls: [['last'], ['last']] }], tools: [last] });
    expect(both.result).toMatchObject({
      reply: 'All set.\n\nAll set.',
      stop: 'tool_use',
      turns: 1,
      status: 'done',
    });
    const one = await play({ script: [{ calls: [['last'], ['echo']] }, 'ok'], tools: [last, echo()] });
    expect(one.result).toMatchObject({ reply: 'ok', turns: 2 });
  });
});

describe('ends that are not normal', () => {
  const APOLOGY = "Sorry, I couldn't come up with an answer. Please try putting it another way.";

  it.each<[string, Step[], string, number, string]>([
    ['empty, then an answer: asked again silently', ['', 'Hello.'], 'Hello.', 2, 'done'],
    ['empty twice in the first turn: apology', ['', ' \n'], APOLOGY, 2, 'failed'],
    [
      'reasoning alone is empty',
      [{ content: [{ type: 'thinking', thinking: 'x' }] }, ''],
      APOLOGY,
      2,
      'failed',
    ],
    [
      'empty after tools: told to answer',
      [{ calls: [['echo']] }, '', '', 'It works.'],
      'It works.',
      4,
      'done',
    ],
    ['still empty: apology', [{ calls: [['echo']] }, '', '', ''], APOLOGY, 4, 'failed'],
    [
      'calls after being told: they are made',
      [{ calls: [['echo']] }, '', '', { calls: [['echo']] }, 'ok'],
      'ok',
      5,
      'done',
    ],
  ])('%s', async (_name, script, reply, calls, status) => {
    const { result, model, events } = await play({ script, tools: [echo()] });
    expect(result).toMatchObject({ reply, status });
    expect(model.requests).toHaveLength(calls);
    expect(JSON.stringify(result.entries)).not.toContain('You gave no answer');
    expect(result.entries.at(-1)!.message).toEqual(assistant(reply));
    expect(events.filter(({ type }) => type === 'turn_start').length).toBe(
      events.filter(({ type }) => type === 'turn_end').length,
    );
  });

  it('an empty answer is injected into one request only', async () => {
    const { model } = await play({
      script: [{ calls: [['echo']] }, '', '', { calls: [['echo']] }, 'ok'],
      tools: [echo()],
    });
    const injected = model.requests.map(({ messages }) =>
      JSON.stringify(messages).includes('You gave no answer'),
    );
    expect(injected).toEqual([false, false, false, true, false]);
  });

  it('an empty answer is an answer where silence is allowed, and the sentence is configurable', async () => {
    const silent = await play({ script: [''], mayBeSilent: true });
    expect(silent.result).toMatchObject({ reply: '', status: 'done' });
    expect(silent.model.requests).toHaveLength(1);
    const own = await play({ script: ['', ''], settings: { empty_reply_text: 'Hm.' } });
    expect(own.result.reply).toBe('Hm.');
    const chinese = await play({ script: ['', ''], language: 'zh' });
    expect(chinese.result.reply).toContain('抱歉');
  });

  it('at max_steps: one more call without tools, for a summary', async () => {
    const script: Step[] = [{ calls: [['echo']] }, { calls: [['echo']] }, 'So far so good.'];
    const { result, model } = await play({ script, tools: [echo()], settings: { max_steps: 2 } });
    expect(result).toMatchObject({ reply: 'So far so good.', status: 'done', turns: 3 });
    expect(model.requests.map(({ allowTools }) => allowTools)).toEqual([true, true, false]);
    expect(JSON.stringify(model.requests[2]!.messages)).toContain('reached the limit of steps');
    expect(JSON.stringify(result.entries)).not.toContain('reached the limit');
  });

  it('at max_steps: calls that the model makes all the same are dropped', async () => {
    const script: Step[] = [{ calls: [['echo']] }, { calls: [['echo']] }];
    const called = echo();
    const { result } = await play({ script, tools: [called], settings: { max_steps: 1 } });
    expect(result).toMatchObject({ status: 'failed', turns: 2 });
    expect(result.reply).toContain('more steps than I may take');
    expect(called.calls).toHaveLength(1);
  });

  it('at max_steps: no extra call if the last permitted turn was an answer', async () => {
    const { model, result } = await play({
      script: [{ calls: [['echo']] }, 'ok'],
      tools: [echo()],
      settings: { max_steps: 2 },
    });
    expect(model.requests).toHaveLength(2);
    expect(result).toMatchObject({ reply: 'ok', status: 'done' });
  });

  it.each<[ModelErrorKind, string]>([
    ['network', "the model can't answer right now"],
    ['invalid', "the model can't answer right now"],
    ['rate_limit', 'busy'],
    ['overloaded', 'busy'],
    ['auth', 'administrator'],
    ['quota', 'administrator'],
    ['refused', 'declined'],
    ['overflow', 'more than the model can read'],
  ])('the model fails (%s): a sentence, a valid history, no tools, no follow-up', async (kind, sentence) => {
    let asked = 0;
    const { result, events } = await play({
      script: [{ calls: [['echo']] }, { fail: { kind } }, { fail: { kind } }],
      tools: [echo()],
      followUp: async () => {
        asked++;
        return [];
      },
    });
    expect(result).toMatchObject({
      status: 'failed',
      stop: 'error',
      reply: expect.stringContaining(sentence),
    });
    expect(brief(messagesOf(result)).at(-1)).toBe(`assistant: ${result.reply}`);
    expect(events.find(({ type }) => type === 'error')).toMatchObject({ message: result.reply });
    expect(asked).toBe(0);
  });

  it('what had arrived before a failure is kept', async () => {
    const { result } = await play({ script: [{ fail: { kind: 'network' }, partial: 'The answer is ' }] });
    expect(result.reply).toMatch(/^The answer is\n\nSorry, /u);
    expect(brief(messagesOf(result))).toEqual(['user: hi', `assistant: ${result.reply}`]);
  });

  it.each<[string, Step]>([
    [
      'throws',
      () => {
        throw new Error('boom');
      },
    ],
    [
      'ends without an end',
      async function* () {
        yield { type: 'text', delta: 'x' } as const;
      },
    ],
  ])('a client that %s is a failed call', async (_name, step) => {
    const { result } = await play({ script: [step] });
    expect(result).toMatchObject({ status: 'failed', stop: 'error' });
  });

  it('a journal that refuses ends the run with its rejection', async () => {
    const gone = new Error('stale');
    const run = play({
      script: [{ calls: [['echo']] }],
      tools: [echo()],
      journal: () => Promise.reject(gone),
    });
    await expect(run).rejects.toBe(gone);
  });
});

describe('tools for afterwards', () => {
  it('run once each after the answer, without arguments; a failure changes nothing', async () => {
    const order: string[] = [];
    const note = (name: string, more: () => Promise<ReturnType<typeof success>>) =>
      tool(
        name,
        async () => {
          order.push(name);
          return more();
        },
        { stage: 'post_process' },
      );
    const good = note('good', async () => success('noted'));
    const bad = note('bad', () => Promise.reject(new Error('full')));
    const { result, writes, logs } = await play({ script: ['Answer.'], tools: [bad, good] });
    expect(result).toMatchObject({ reply: 'Answer.', status: 'done' });
    expect(order).toEqual(['bad', 'good']);
    expect(good.calls).toEqual([{}]);
    expect(steps(writes)).toEqual(['steered p1', 'assistant', 'tool_start', 'tool_start']);
    expect(logs).toContainEqual(
      expect.objectContaining({ level: 'warn', message: 'a post-process tool failed' }),
    );
  });

  it('do not run after a failure or a cancel', async () => {
    const after = tool('after', undefined, { stage: 'post_process' });
    await play({ script: [{ fail: {} }], tools: [after] });
    expect(after.calls).toEqual([]);
  });
});
