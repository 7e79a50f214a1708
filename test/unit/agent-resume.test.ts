// A run that was interrupted at any point goes on from its journal: what was done is not done again.
import { describe, expect, it } from 'vitest';
import type { JournalEntry } from '../../src/ports/store.ts';
import { fail, success } from '../../src/ports/tool.ts';
import {
  brief,
  messagesOf,
  play,
  prompt,
  settled,
  start,
  steps,
  tool,
  violationsOf,
  type Step,
} from '../fakes/agent.ts';

const script: Step[] = [
  {
    text: 'One.',
    calls: [
      ['read', { n: 1 }],
      ['pay', { n: 2 }],
    ],
  },
  { calls: [['read', { n: 3 }]] },
  'Done.',
];
const tools = () =>
  [tool('read', undefined, { idempotent: true }), tool('pay', async () => success('paid'))] as const;

/** All that a whole run journals. */
async function journalOf(): Promise<JournalEntry[]> {
  return (await play({ script, tools: [...tools()] })).writes.flat();
}

describe('a resumed run', () => {
  it('continues after any number of journaled steps: each effect at most once, the history valid', async () => {
    const journal = await journalOf();
    expect(journal.map(({ kind }) => kind)).toEqual([
      'steered',
      'assistant',
      'tool_start',
      'tool_result',
      'tool_start',
      'tool_result',
      'assistant',
      'tool_start',
      'tool_result',
    ]);
    for (let length = 1; length <= journal.length; length++) {
      const resume = journal.slice(0, length);
      const answered = resume.filter(({ kind }) => kind === 'assistant').length;
      const [read, pay] = tools();
      const { result, events } = await play({ script: script.slice(answered), tools: [read, pay], resume });
      const done = new Set(resume.flatMap((entry) => (entry.kind === 'tool_result' ? [entry.call_id] : [])));
      const started = resume.flatMap((entry) => (entry.kind === 'tool_start' ? [entry.call_id] : []));
      const open = started.find((id) => !done.has(id));
      const lines = brief(messagesOf(result));
      expect(lines.filter((line) => !line.startsWith('error'))).toHaveLength(open === 'call_2' ? 8 : 9);
      expect(lines.at(-1)).toBe('assistant: Done.');
      // The call that was under way is made again only if that is harmless.
      expect(pay.calls.length).toBe(done.has('call_2') || started.includes('call_2') ? 0 : 1);
      expect(lines.some((line) => line.includes('was interrupted during this call'))).toBe(open === 'call_2');
      expect(result).toMatchObject({ reply: 'Done.', turns: 3, usage: { input: 30, output: 15, cached: 0 } });
      expect(violationsOf(messagesOf(result))).toEqual([]);
      expect(events[0]).toMatchObject({ type: 'agent_start', resumed: true });
      // What was announced is not announced again; what was only streamed comes again.
      expect(events[1]).toMatchObject({ type: 'message_reset' });
      expect(events.some((event) => event.type === 'message_start' && event.role === 'user')).toBe(false);
    }
  });

  it('with nothing in its journal but what is no step starts anew', async () => {
    const draft: unknown = { v: 1, kind: 'draft', account: 'test', handle: { card: '1' } };
    const resume = [draft as JournalEntry];
    const { result, events } = await play({ script: ['Hello.'], resume });
    expect(result.reply).toBe('Hello.');
    expect(events[0]).toEqual(expect.not.objectContaining({ resumed: true }));
  });

  it('puts messages that it had taken where it had taken them, and shows those that it had not shown', async () => {
    let asked = 0;
    const before = await play({
      script: [{ calls: [['read']] }, { calls: [['read']] }, 'ok'],
      tools: [...tools()],
      steering: async () => (++asked === 2 ? [prompt('second', 's')] : []),
    });
    const { result, events } = await play({
      script: ['ok'],
      tools: [...tools()],
      resume: before.writes.flat(),
      prompts: [prompt('hi', 'p1'), prompt('second', 's'), prompt('third', 't')],
    });
    expect(brief(messagesOf(result))).toEqual([
      'user: hi',
      'call read {}',
      'result {}',
      'user: second',
      'call read {}',
      'result {}',
      'user: third',
      'assistant: ok',
    ]);
    expect(result.entries.map(({ id }) => id)).toEqual([
      'p1',
      undefined,
      undefined,
      's',
      undefined,
      undefined,
      't',
      undefined,
    ]);
    expect(events).toContainEqual(expect.objectContaining({ type: 'steered', messages: ['t'] }));
    expect(events).toContainEqual(expect.objectContaining({ type: 'message_start', id: 't' }));
  });

  it('skips calls that had not started if a message waits that it has not shown', async () => {
    const [read, pay] = tools();
    const { result } = await play({
      script: ['ok'],
      tools: [read, pay],
      resume: (await journalOf()).slice(0, 4),
      prompts: [prompt('hi', 'p1'), prompt('wait', 'w')],
    });
    expect(brief(messagesOf(result)).slice(4)).toEqual([
      'result {"n":1}',
      'result paid',
      'user: wait',
      'assistant: ok',
    ]);
    expect(pay.calls).toHaveLength(1);
  });

  it('that had answered, and was at its tools for afterwards, does not ask the model again', async () => {
    const note = tool('note', undefined, { stage: 'post_process' });
    const file = tool('file', undefined, { stage: 'post_process', idempotent: true });
    const mail = tool('mail', undefined, { stage: 'post_process' });
    const before = await play({ script: ['Answer.'], tools: [note, file, mail] });
    const journal = before.writes.flat();
    expect(steps(before.writes)).toEqual([
      'steered p1',
      'assistant',
      'tool_start',
      'tool_start',
      'tool_start',
    ]);
    const again = [note, file, mail].map(({ calls: _calls, ...item }) => tool(item.name, undefined, item));
    const { result, model } = await play({ tools: again, resume: journal.slice(0, 4) });
    expect(model.requests).toEqual([]);
    expect(result).toMatchObject({ reply: 'Answer.', status: 'done', turns: 1 });
    // note had started: once is enough; file may be repeated; mail had not started.
    expect(note.calls).toHaveLength(1);
    expect(journal.at(-1)).toMatchObject({ call_id: 'post:mail' });
  });

  it('goes on with the follow-up whose answer was under way', async () => {
    let asked = 0;
    const before = start({
      script: ['First.', { fail: {} }],
      followUp: async () => (asked++ === 0 ? [prompt('more', 'm')] : []),
    });
    await before.result;
    const { result } = await play({
      script: ['Second.'],
      resume: before.writes.flat(),
      prompts: [prompt('hi', 'p1'), prompt('more', 'm')],
    });
    expect(result.reply).toBe('First.\n\nSecond.');
    expect(brief(messagesOf(result))).toEqual([
      'user: hi',
      'assistant: First.',
      'user: more',
      'assistant: Second.',
    ]);
  });

  it('remembers what its breakers had seen', async () => {
    const bad = () => tool('bad', async () => fail('no'));
    const before = await play({
      script: [{ calls: [['bad']] }, { calls: [['bad']] }, { calls: [['bad']] }, 'x'],
      tools: [bad()],
    });
    const after = bad();
    const { result } = await play({
      script: [{ calls: [['bad']] }, 'ok'],
      tools: [after],
      resume: before.writes.flat(),
    });
    expect(after.calls).toEqual([]);
    expect(brief(messagesOf(result)).at(-2)).toContain('Take another approach');
  });

  it('keeps a terminate that was journaled', async () => {
    const last = tool('last', async () => success('Bye.', { terminate: true }));
    const before = await play({ script: [{ calls: [['last']] }], tools: [last] });
    const { result, model } = await play({ tools: [last], resume: before.writes.flat() });
    expect(model.requests).toEqual([]);
    expect(result).toMatchObject({ reply: 'Bye.', stop: 'tool_use' });
    expect(last.calls).toHaveLength(1);
  });

  it('that was cancelled in the meantime runs nothing, and completes the pairing', async () => {
    const [read, pay] = tools();
    const run = start({
      tools: [read, pay],
      resume: (await journalOf()).slice(0, 3),
      signal: AbortSignal.abort('cancel'),
    });
    const result = await run.result;
    expect(brief(messagesOf(result))).toEqual([
      'user: hi',
      'assistant: One.',
      'call read {"n":1}',
      'call pay {"n":2}',
      'error Not done: the user cancelled the run.',
      'error Not done: the user cancelled the run.',
      'assistant: (cancelled)',
    ]);
    expect(result.reply).toBe('One.\n\n(cancelled)');
    await settled();
    expect([read.calls, pay.calls]).toEqual([[], []]);
  });
});
