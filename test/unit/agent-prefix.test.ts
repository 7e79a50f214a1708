// Prompt caches: each request begins with the very bytes of the one before, within a run and across runs, compaction aside.
import { describe, expect, it } from 'vitest';
import type { Message } from '../../src/domain/messages.ts';
import type { ModelRequest } from '../../src/ports/model.ts';
import { success } from '../../src/ports/tool.ts';
import {
  messagesOf,
  play,
  prompt,
  scriptedModel,
  tool,
  user,
  type PlayOptions,
  type ScriptedModel,
  type Step,
} from '../fakes/agent.ts';

/** What a vendor reads, in its order: tools, system, then each block of each message. */
const bytes = ({ tools, system, messages }: ModelRequest): string[] => [
  JSON.stringify(tools),
  system,
  ...messages.flatMap(({ role, content }) => content.map((block) => `${role} ${JSON.stringify(block)}`)),
];

function expectPrefixes(requests: readonly ModelRequest[]): void {
  for (const [n, request] of requests.entries()) {
    if (n === 0) continue;
    const before = bytes(requests[n - 1]!);
    expect(bytes(request).slice(0, before.length)).toEqual(before);
  }
}

/** Several runs of one conversation with one model; the history is stored as JSON in between. */
async function converse(runs: PlayOptions[]): Promise<ScriptedModel> {
  const model = scriptedModel(runs.flatMap(({ script = [] }) => script));
  let history: Message[] = [];
  for (const [n, options] of runs.entries()) {
    const { result } = await play({ prompts: [`message ${n}`], ...options, model, messages: history });
    history = JSON.parse(JSON.stringify([...history, ...messagesOf(result)])) as Message[];
  }
  return model;
}

const call = (...names: string[]): Step => ({
  text: 'Let me see.',
  calls: names.map((name) => [name, { b: 1, a: 2 }]),
});

describe('the prefix', () => {
  it('is byte-stable within a run and across runs', async () => {
    const echo = tool('echo');
    const other = tool('other', async () =>
      success([
        { type: 'text', text: 'x' },
        { type: 'image', media_type: 'image/png', ref: 'y' },
      ]),
    );
    const long = tool('long', async () => success('x'.repeat(15_000)));
    let looks = 0;
    const model = await converse([
      { script: [call('echo', 'other'), call('long'), 'First.'], tools: [echo, other, long] },
      // Another order of the same tools.
      { script: [call('echo'), 'Second.'], tools: [long, other, echo], prompts: ['a', 'b'] },
      // Bad arguments, unknown tools, ids that were used before.
      {
        script: [{ calls: [['echo', '{"a":'], ['nobody'], ['echo', {}, 'call_1']] }, 'Third.'],
        tools: [echo, other, long],
      },
      // Steering and follow-up.
      {
        script: [call('echo'), 'Fourth.', 'Fifth.'],
        tools: [echo, other, long],
        steering: async () => (++looks === 2 ? [prompt('wait', 'w')] : []),
        followUp: async () => (++looks === 4 ? [prompt('more', 'm')] : []),
      },
      { script: [{ fail: { kind: 'network' }, partial: 'Half' }], tools: [echo, other, long] },
      { script: ['Last.'], tools: [echo, other, long] },
    ]);
    expect(model.requests.length).toBe(12);
    expectPrefixes(model.requests);
  });

  it('keeps reasoning as it was sent', async () => {
    const thinking = (extra: object): Step => ({
      content: [
        { type: 'thinking', thinking: 'hm '.repeat(5_000), ...extra },
        { type: 'text', text: 'ok' },
      ],
    });
    const model = await converse([
      { script: [thinking({ signature: 's' })] },
      { script: [thinking({ field: 'reasoning_content' })] },
      { script: [thinking({})] },
      { script: ['ok'] },
    ]);
    expectPrefixes(model.requests);
    const lengths = model.requests
      .at(-1)!
      .messages.flatMap(({ content }) =>
        content.flatMap((block) => (block.type === 'thinking' ? [block.thinking.length] : [])),
      );
    // Signed, or to be sent back: whole. For people only: cut, at once and for good.
    expect(lengths).toEqual([15_000, 15_000, expect.any(Number)]);
    expect(lengths[2]).toBeLessThanOrEqual(4_096);
  });

  it('changes once for results that are cut for the history, and never again', async () => {
    const long = tool('long', async () => success('x'.repeat(45_000)));
    const model = await converse([
      { script: [call('long'), 'First.'], tools: [long] },
      { script: ['Second.'], tools: [long] },
      { script: ['Third.'], tools: [long] },
    ]);
    expectPrefixes(model.requests.slice(0, 2));
    expectPrefixes(model.requests.slice(2));
  });

  it('holds no clock and no ids but those of calls and runs', async () => {
    const model = await converse([{ script: ['ok'] }]);
    expect(bytes(model.requests[0]!)).toEqual([
      '[]',
      'You are a test.',
      `user ${JSON.stringify(user('message 0').content[0])}`,
    ]);
  });
});
