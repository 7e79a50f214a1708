// Messages that arrive during a run: steering at turn boundaries and between calls, follow-up when the run would end.
import { describe, expect, it } from 'vitest';
import type { AgentPrompt } from '../../src/agent/index.ts';
import {
  brief,
  messagesOf,
  play,
  prompt,
  steps,
  tool,
  violationsOf,
  merge,
  type Step,
} from '../fakes/agent.ts';

/** An inbox whose messages arrive while a tool runs, or at the start. */
function inbox() {
  const waiting: AgentPrompt[] = [];
  return {
    arrive: (...texts: string[]) => void waiting.push(...texts.map((text) => prompt(text, text))),
    take: async () => waiting.splice(0),
  };
}

const callsAB: Step = { calls: [['a'], ['b'], ['a', { n: 2 }]] };

describe('steering', () => {
  it('is shown at the next turn boundary; calls that have not started are skipped, each with its result', async () => {
    const { arrive, take } = inbox();
    const a = tool('a', async () => {
      arrive('stop that');
      return { status: 'success', content: 'A' };
    });
    const b = tool('b');
    const { result, events, writes, model } = await play({
      script: [callsAB, 'ok'],
      tools: [a, b],
      steering: take,
    });
    expect(brief(messagesOf(result))).toEqual([
      'user: hi',
      'call a {}',
      'call b {}',
      'call a {"n":2}',
      'result A',
      'error Skipped: the user sent a new message.',
      'error Skipped: the user sent a new message.',
      'user: stop that',
      'assistant: ok',
    ]);
    expect([a.calls.length, b.calls.length]).toEqual([1, 0]);
    expect(events.filter(({ type }) => type === 'steered')).toMatchObject([{ messages: ['stop that'] }]);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'message_start', role: 'user', id: 'stop that' }),
    );
    expect(result.entries.find(({ id }) => id === 'stop that')).toBeDefined();
    // One user message for the model: the results, then what was said.
    expect(model.requests[1]!.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
    expect(steps(writes)).toEqual([
      'steered p1',
      'assistant',
      'tool_start',
      'tool_result',
      'tool_result',
      'tool_result',
    ]);
  });

  it('before the first call: what has arrived is shown with the prompt', async () => {
    const { arrive, take } = inbox();
    arrive('and this');
    const { model, result } = await play({ script: ['ok'], steering: take });
    expect(brief(model.requests[0]!.messages)).toEqual(['user: hi', 'user: and this']);
    expect(result.turns).toBe(1);
  });

  it('during the last answer: the run goes on, and both answers are the reply', async () => {
    const { arrive, take } = inbox();
    const { result, writes } = await play({
      script: [() => (arrive('also?'), 'First.'), 'Second.'],
      steering: take,
    });
    expect(result).toMatchObject({ reply: 'First.\n\nSecond.', turns: 2 });
    expect(brief(messagesOf(result))).toEqual([
      'user: hi',
      'assistant: First.',
      'user: also?',
      'assistant: Second.',
    ]);
    // The first answer is durable before the model is called again.
    expect(steps(writes)).toEqual(['steered p1', 'assistant', 'steered also?']);
  });

  it.each<['all' | 'one-at-a-time', string[], number]>([
    ['all', ['First.', 'Second.'], 2],
    ['one-at-a-time', ['First.', 'Second.', 'Third.'], 3],
  ])('%s', async (steering, replies, turns) => {
    const { arrive, take } = inbox();
    const { result, model } = await play({
      script: [() => (arrive('x', 'y'), 'First.'), 'Second.', 'Third.'],
      settings: { steering },
      steering: take,
    });
    expect(result).toMatchObject({ reply: replies.join('\n\n'), turns });
    expect(brief(model.requests[1]!.messages).slice(2)).toEqual(
      steering === 'all' ? ['user: x', 'user: y'] : ['user: x'],
    );
  });

  it('changes who the tools see as the sender', async () => {
    const seen: string[] = [];
    const who = tool('who', async (_args, { sender }) => {
      seen.push(sender.id);
      return { status: 'success', content: 'x' };
    });
    let asked = 0;
    await play({
      script: [{ calls: [['who']] }, { calls: [['who']] }, 'ok'],
      tools: [who],
      steering: async () => (++asked === 2 ? [{ ...prompt('me too', 'b'), sender: { id: 'bob' } }] : []),
    });
    expect(seen).toEqual(['ann', 'bob']);
  });

  it('replaces the nudge after an empty answer', async () => {
    const { arrive, take } = inbox();
    const { model, result } = await play({
      script: [{ calls: [['a']] }, '', () => (arrive('well?'), ''), 'ok'],
      tools: [tool('a')],
      steering: take,
    });
    expect(JSON.stringify(model.requests[3]!.messages)).not.toContain('You gave no answer');
    expect(result.reply).toBe('ok');
  });
});

describe('follow-up', () => {
  it.each<['all' | 'one-at-a-time', string[]]>([
    ['all', ['user: hi', 'assistant: 1', 'user: x', 'user: y', 'assistant: 2']],
    ['one-at-a-time', ['user: hi', 'assistant: 1', 'user: x', 'assistant: 2', 'user: y', 'assistant: 3']],
  ])('%s: goes on in the same run', async (follow_up, wanted) => {
    const { arrive, take } = inbox();
    arrive('x', 'y');
    const { result, events, writes } = await play({
      script: ['1', '2', '3'],
      settings: { follow_up },
      followUp: take,
    });
    expect(brief(messagesOf(result))).toEqual(wanted);
    expect(result.reply).toBe(follow_up === 'all' ? '1\n\n2' : '1\n\n2\n\n3');
    expect(events.filter(({ type }) => type === 'agent_start' || type === 'agent_end')).toHaveLength(2);
    expect(steps(writes).slice(0, 3)).toEqual([
      'steered p1',
      'assistant',
      follow_up === 'all' ? 'steered x,y' : 'steered x',
    ]);
  });

  it('is asked for only when the run would end', async () => {
    let asked = 0;
    await play({
      script: [{ calls: [['a']] }, { calls: [['a']] }, 'ok'],
      tools: [tool('a')],
      followUp: async () => {
        asked++;
        return [];
      },
    });
    expect(asked).toBe(1);
  });
});

describe('at the step limit', () => {
  it('messages are left in the inbox', async () => {
    let asked = 0;
    const count = async () => {
      asked++;
      return [];
    };
    const { result } = await play({
      script: ['ok'],
      settings: { max_steps: 1 },
      steering: count,
      followUp: count,
    });
    expect(result.turns).toBe(1);
    // Before the first turn; not after the last.
    expect(asked).toBe(1);
  });

  it('messages that the run holds are shown before the summary', async () => {
    let asked = 0;
    const { result, model } = await play({
      script: [{ calls: [['a']] }, { calls: [['a']] }, 'Summary.'],
      tools: [tool('a')],
      settings: { max_steps: 2, steering: 'one-at-a-time' },
      steering: async () => (++asked === 2 ? ['x', 'y', 'z'].map((text) => prompt(text, text)) : []),
    });
    expect(model.requests).toHaveLength(3);
    expect(brief(messagesOf(result))).toEqual([
      'user: hi',
      'call a {}',
      'result {}',
      'user: x',
      'call a {}',
      'result {}',
      'user: y',
      'user: z',
      'assistant: Summary.',
    ]);
    expect(violationsOf(merge(messagesOf(result)))).toEqual([]);
  });
});

it('a store that refuses to hand over messages ends the run with its rejection', async () => {
  const gone = new Error('lease lost');
  await expect(play({ script: ['ok'], steering: () => Promise.reject(gone) })).rejects.toBe(gone);
  await expect(play({ script: ['ok'], followUp: () => Promise.reject(gone) })).rejects.toBe(gone);
});
