// The nine hooks: what each may do, and that a hook that throws does no harm.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { AgentHooks } from '../../src/agent/index.ts';
import { textOf, type Message } from '../../src/domain/messages.ts';
import { success } from '../../src/ports/tool.ts';
import {
  assistant,
  brief,
  messagesOf,
  play,
  prompt,
  scriptedModel,
  tool,
  user,
  type PlayOptions,
} from '../fakes/agent.ts';
import { calendar, examples, stronger, tests } from '../fakes/hook-examples.ts';

const echo = () => tool('echo');
const oneCall = (more: PlayOptions = {}) =>
  play({ script: [{ calls: [['echo', { a: 1 }]] }, 'ok'], tools: [echo()], ...more });
const shout = (message: Message): Message => ({
  role: message.role,
  content: message.content.map((block) =>
    block.type === 'text' ? { ...block, text: block.text.toUpperCase() } : block,
  ),
});

describe('hooks', () => {
  it('transformContext: what the model sees, not what is kept', async () => {
    const { model, result } = await oneCall({
      hooks: { transformContext: (messages) => messages.map(shout) },
    });
    expect(brief(model.requests[0]!.messages)).toEqual(['user: HI']);
    expect(brief(messagesOf(result))[0]).toBe('user: hi');
  });

  it('transformContext: what breaks the pairing is repaired', async () => {
    const { model } = await oneCall({
      hooks: {
        transformContext: (messages) => messages.filter(({ content }) => content[0]?.type !== 'tool_result'),
      },
    });
    expect(model.violations).toEqual([]);
    expect(brief(model.requests[1]!.messages)[2]).toContain('result of this call is missing');
  });

  it('convertToModel: after transformContext', async () => {
    const order: string[] = [];
    const { model } = await play({
      hooks: {
        transformContext: (messages) => (order.push('transform'), [...messages, user('note')]),
        convertToModel: async (messages) => (
          order.push('convert'),
          messages.filter((message) => message.role === 'user')
        ),
      },
      messages: [user('a'), assistant('b')],
    });
    expect(order).toEqual(['transform', 'convert']);
    expect(brief(model.requests[0]!.messages)).toEqual(['user: a', 'user: hi', 'user: note']);
  });

  it('convertToModel: by default only user, assistant and tool results pass', async () => {
    const note = { role: 'note', content: [{ type: 'text', text: 'for us only' }] } as unknown as Message;
    const { model } = await play({ messages: [user('a'), assistant('b'), note] });
    expect(brief(model.requests[0]!.messages)).toEqual(['user: a', 'assistant: b', 'user: hi']);
  });

  it.each<[string, ReturnType<NonNullable<AgentHooks['beforeToolCall']>>, string, number]>([
    ['blocks with a reason', { block: true, reason: 'Not on Sundays.' }, 'error Not on Sundays.', 0],
    ['blocks without one', { block: true }, 'error This call is not allowed.', 0],
    ['lets it pass', { block: false }, 'result {"a":1}', 1],
    ['says nothing', undefined, 'result {"a":1}', 1],
  ])('beforeToolCall %s', async (_name, answer, line, calls) => {
    const called = echo();
    const seen: unknown[] = [];
    const { result } = await oneCall({
      tools: [called],
      hooks: { beforeToolCall: (info) => (seen.push(info), answer) },
    });
    expect(brief(messagesOf(result))[2]).toBe(line);
    expect(called.calls).toHaveLength(calls);
    expect(seen).toMatchObject([
      { call: { name: 'echo', id: 'call_1' }, args: { a: 1 }, turn: 1, tool: { name: 'echo' } },
    ]);
  });

  it('beforeToolCall: not asked about calls that cannot be made', async () => {
    let asked = 0;
    await play({
      script: [{ calls: [['nobody'], ['echo', 'x']] }, 'ok'],
      tools: [echo()],
      hooks: { beforeToolCall: () => void asked++ },
    });
    expect(asked).toBe(0);
  });

  it('afterToolCall: replaces fields of the result', async () => {
    const secret = tool('echo', async () => success('the key is 123', { display: 'ok' }));
    const { result, events } = await oneCall({
      tools: [secret],
      hooks: {
        afterToolCall: async (_info, { content }) => ({
          content: textOf(content).replaceAll(/\d/gu, '*'),
          status: 'error',
        }),
      },
    });
    expect(brief(messagesOf(result))[2]).toBe('error the key is ***');
    expect(events).toContainEqual(expect.objectContaining({ type: 'tool_execution_end', display: 'ok' }));
  });

  it('prepareNextTurn: another model, thinking level or context for the next turns', async () => {
    const strong = scriptedModel(['strong answer'], { name: 'strong' });
    const { result, model } = await oneCall({
      thinking: 'low',
      hooks: {
        prepareNextTurn: ({ turn, results }) =>
          turn === 1 && results.length === 1
            ? { model: strong, thinking: 'high', context: [user('in short: 1 was echoed')] }
            : undefined,
      },
    });
    expect(result.reply).toBe('strong answer');
    expect(model.requests).toHaveLength(1);
    expect(model.requests[0]!.thinking).toBe('low');
    expect(strong.requests[0]).toMatchObject({
      thinking: 'high',
      messages: [user('in short: 1 was echoed')],
    });
    // The history is what happened.
    expect(brief(messagesOf(result))).toEqual([
      'user: hi',
      'call echo {"a":1}',
      'result {"a":1}',
      'assistant: strong answer',
    ]);
  });

  it.each<[string, boolean | { reply: string }, string]>([
    ['with a reply', { reply: 'Enough.' }, 'Looking.\n\nEnough.'],
    ['without', true, 'Looking.'],
  ])('shouldStopAfterTurn: ends the run, %s', async (_name, answer, reply) => {
    const { result, model } = await oneCall({
      script: [{ text: 'Looking.', calls: [['echo', { a: 1 }]] }, 'ok'],
      hooks: { shouldStopAfterTurn: ({ usage }) => usage.input >= 10 && answer },
    });
    expect(result).toMatchObject({ reply, status: 'done', turns: 1 });
    expect(model.requests).toHaveLength(1);
  });

  it('getApiKey: for each call, by the entry name', async () => {
    let n = 0;
    const { model } = await oneCall({ hooks: { getApiKey: async (name) => `${name}-${++n}` } });
    expect(model.requests.map(({ apiKey }) => apiKey)).toEqual(['scripted-1', 'scripted-2']);
  });

  it('getSteering and getFollowUp: views of the inbox', async () => {
    const inbox = [prompt('secret', 's'), prompt('next', 'n')];
    const take = async () => inbox.splice(0, 1);
    const { result } = await play({
      script: ['1', '2', '3'],
      steering: take,
      followUp: take,
      hooks: {
        getSteering: async () => [],
        getFollowUp: async (view) =>
          (await view()).map((item) => (item.id === 's' ? { id: 's', message: user('***') } : item)),
      },
    });
    expect(brief(messagesOf(result)).filter((line) => line.startsWith('user'))).toEqual([
      'user: hi',
      'user: ***',
      'user: next',
    ]);
    expect(result.entries.map(({ id }) => id)).toEqual(['p1', undefined, 's', undefined, 'n', undefined]);
  });

  it.each<keyof AgentHooks>([
    'transformContext',
    'convertToModel',
    'afterToolCall',
    'prepareNextTurn',
    'shouldStopAfterTurn',
    'getApiKey',
  ])('%s that throws, or rejects, is logged and left out', async (name) => {
    for (const hook of [
      () => {
        throw new Error('oops');
      },
      () => Promise.reject(new Error('oops')),
    ]) {
      const { result, logs } = await oneCall({ hooks: { [name]: hook } });
      expect(result.reply).toBe('ok');
      expect(logs).toContainEqual(
        expect.objectContaining({ level: 'error', fields: expect.objectContaining({ hook: name }) }),
      );
    }
  });

  it('beforeToolCall that throws blocks the call', async () => {
    const called = echo();
    const { result, logs } = await oneCall({
      tools: [called],
      hooks: { beforeToolCall: () => Promise.reject(new Error('oops')) },
    });
    expect(called.calls).toEqual([]);
    expect(brief(messagesOf(result))[2]).toContain('could not be checked');
    expect(logs.some(({ level }) => level === 'error')).toBe(true);
  });
});

describe('the example at each hook', () => {
  const sources = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
  // Layout is the formatter's: spaces, brackets around a conditional, trailing commas.
  const words = (text: string) => text.replaceAll(/[\s()]+|,(?=\s*\n\s*[)}\]])/gu, '').replaceAll(/,$/gu, '');
  const documented = [
    ...sources('../../src/agent/hooks.ts').matchAll(/\n {3}\*\n((?: {3}\* {5}.*\n)+) {3}\*\/\n {2}(\w+)\?/gu),
  ].map(([, text = '', name = '']) => [name, text.replaceAll(/^ {3}\* {5}/gmu, '')] as const);

  it('is one of nine', () => {
    expect(documented.map(([name]) => name)).toEqual(Object.keys(examples));
  });

  it.each(documented)('%s: is the one that is run here', (_name, text) => {
    expect(words(sources('../fakes/hook-examples.ts'))).toContain(words(text));
  });

  const secret = tool('shell', async () => success('the key is sk-123'));

  it.each<[keyof typeof examples, PlayOptions, (played: Awaited<ReturnType<typeof play>>) => void]>([
    [
      'transformContext',
      { prompts: [prompt('call 13800138000')] },
      ({ model, result }) => {
        expect(brief(model.requests[0]!.messages)).toEqual(['user: call ***']);
        expect(brief(messagesOf(result))[0]).toBe('user: call 13800138000');
      },
    ],
    [
      'convertToModel',
      {
        prompts: [
          {
            message: {
              role: 'user',
              content: [
                { type: 'text', text: 'hi' },
                { type: 'file', media_type: 'text/plain', name: 'a.txt', ref: 'media:a' },
              ],
            },
          },
        ],
      },
      ({ model }) => expect(model.requests[0]!.messages[0]!.content).toHaveLength(1),
    ],
    [
      'beforeToolCall',
      {
        script: [
          {
            calls: [
              ['shell', { command: 'rm -r /' }],
              ['shell', { command: 'ls' }],
            ],
          },
          'ok',
        ],
        tools: [secret],
      },
      ({ result }) =>
        expect(brief(messagesOf(result)).slice(3, 5)).toEqual([
          'error Deleting is off.',
          'result the key is sk-123',
        ]),
    ],
    [
      'afterToolCall',
      { script: [{ calls: [['shell']] }, 'ok'], tools: [secret] },
      ({ result }) => expect(brief(messagesOf(result))[2]).toContain('the key is ***'),
    ],
    [
      'prepareNextTurn',
      { script: Array.from({ length: 5 }, (_, n) => ({ calls: [['echo', { n }]] })), tools: [echo()] },
      ({ result }) => {
        expect(result.reply).toBe('a better answer');
        expect(stronger.requests[0]?.thinking).toBe('high');
      },
    ],
    [
      'shouldStopAfterTurn',
      {
        script: [{ calls: [['echo']], usage: { input: 200_000, output: 1, cached: 0 } }, 'not asked'],
        tools: [echo()],
      },
      ({ result }) => expect(result).toMatchObject({ reply: 'Enough for today.', turns: 1 }),
    ],
    ['getApiKey', {}, ({ model }) => expect(model.requests[0]?.apiKey).toBe('key of llm/scripted')],
    [
      'getSteering',
      { script: [{ calls: [['echo']] }, 'ok'], tools: [echo()], steering: async () => [prompt('now')] },
      ({ model }) => expect(brief(model.requests[0]!.messages)).toEqual(['user: hi', 'user: now']),
    ],
    [
      'getFollowUp',
      { script: ['done', 'they are green'] },
      ({ result }) => expect(result.reply).toBe('done\n\nthey are green'),
    ],
  ])('%s: does what it says', async (name, options, check) => {
    tests.red = 1;
    check(await play({ hooks: { [name]: examples[name] }, ...options }));
  });

  it('getSteering: leaves messages waiting at a quiet hour', async () => {
    calendar.quiet = true;
    const { model } = await play({
      hooks: { getSteering: examples.getSteering },
      steering: async () => [prompt('now')],
    });
    expect(brief(model.requests[0]!.messages)).toEqual(['user: hi']);
  });
});
