// The page's transcript: history and run events in, what is on the screen out. The same run must look the same however it
// came: seen as it happened, joined in the middle, replayed, or read from the history.
import { beforeEach, describe, expect, test } from 'vitest';
import type { AssistantItem, Part } from '../../channels/web/page/history.js';
import { createTranscript, type Item } from '../../channels/web/page/transcript.js';
import type { RunEvent, RunEventBody } from '../../src/domain/events.ts';
import type { HistoryEntry, Message, ToolResultBlock, ToolUseBlock } from '../../src/domain/messages.ts';

const USAGE = { input: 1, output: 1, cached: 0 };
const CALL: ToolUseBlock = { type: 'tool_use', id: 'call-1', name: 'now', input: { zone: 'UTC' } };
const RESULT: ToolResultBlock = { type: 'tool_result', tool_use_id: 'call-1', content: 'noon' };
const WITH_CALL: Message = { role: 'assistant', content: [{ type: 'text', text: 'Let me look.' }, CALL] };
const ANSWER: Message = { role: 'assistant', content: [{ type: 'text', text: 'It is noon.' }] };

const end = (
  reply: string,
  more: Partial<Extract<RunEventBody, { type: 'agent_end' }>> = {},
): RunEventBody => ({
  type: 'agent_end',
  status: 'done',
  reply,
  stop: 'stop',
  usage: USAGE,
  turns: 1,
  ...more,
});

/** A run with a tool, as it is published. */
const RUN: RunEventBody[] = [
  { type: 'agent_start', messages: ['m1'] },
  { type: 'turn_start' },
  { type: 'message_start', role: 'assistant' },
  { type: 'message_update', delta: 'Let me ' },
  { type: 'message_update', delta: 'look.' },
  { type: 'message_end', message: WITH_CALL },
  { type: 'tool_execution_start', call: CALL },
  { type: 'tool_execution_progress', call_id: 'call-1', text: 'winding the clock' },
  { type: 'tool_execution_end', call_id: 'call-1', name: 'now', result: RESULT, duration_ms: 12 },
  { type: 'turn_end', stop: 'tool_use' },
  { type: 'turn_start' },
  { type: 'message_start', role: 'assistant' },
  { type: 'message_update', delta: 'It is noon.' },
  { type: 'message_end', message: ANSWER },
  { type: 'turn_end', stop: 'stop' },
  end('It is noon.'),
];
/** The same run, as the history keeps it. */
const HISTORY: HistoryEntry[] = [
  {
    role: 'user',
    content: [{ type: 'text', text: 'Time?' }],
    at: 1,
    run: 'r1',
    id: 'm1',
    sender: { id: 'web' },
  },
  { ...WITH_CALL, at: 2, run: 'r1', stop: 'tool_use' },
  { role: 'user', content: [RESULT], at: 3, run: 'r1' },
  { ...ANSWER, at: 4, run: 'r1', stop: 'stop' },
];
const EMPTY = { messages: [], pending: 0 };

let transcript: ReturnType<typeof createTranscript>;
beforeEach(() => {
  transcript = createTranscript({ now: () => 1_000 });
});

const event = (body: RunEventBody, run = 'r1'): RunEvent =>
  Object.assign({ conversation: 'web:x', run, turn: 1 }, body);
function play(events: RunEventBody[], run = 'r1'): boolean {
  let readAgain = false;
  for (const body of events) readAgain = transcript.apply(event(body, run)) || readAgain;
  return readAgain;
}
const type = (id: string, text: string) => transcript.add({ id, text, at: 1, state: 'sending' });

/** What can be seen of a part: not the bookkeeping. */
function seen(part: Part): string {
  if (part.type === 'tool') return `${part.name} ${part.state} ${JSON.stringify(part.output ?? null)}`;
  return part.type === 'file' ? part.name : `${part.type}: ${part.text}`;
}
const shown = (items: readonly Item[] = transcript.items): string[] =>
  items.flatMap((item) => {
    if (item.kind === 'notice') return [`notice: ${item.text}`];
    if (item.kind === 'user') return [`user ${item.state}: ${item.text}`];
    return [...item.parts.map(seen), ...(item.stopped ? ['stopped'] : [])];
  });
const answers = (): AssistantItem[] => transcript.items.filter((item) => item.kind === 'assistant');

const COMPLETE = ['user taken: Time?', 'text: Let me look.', 'now done "noon"', 'text: It is noon.'];

describe('a run', () => {
  test('seen as it happens', () => {
    transcript.load(EMPTY);
    type('m1', 'Time?');
    expect(shown()).toEqual(['user sending: Time?']);
    transcript.sent('m1');
    expect(shown()).toEqual(['user waiting: Time?']);
    expect(transcript.busy).toBe(true);

    play(RUN.slice(0, 4));
    expect(transcript.active).toBe('r1');
    expect(shown()).toEqual(['user taken: Time?', 'text: Let me ']);
    play(RUN.slice(4, 8));
    expect(shown()).toEqual(['user taken: Time?', 'text: Let me look.', 'now running null']);
    expect(answers()[0]?.parts.at(-1)).toMatchObject({ progress: 'winding the clock' });
    expect(play(RUN.slice(8))).toBe(false);
    expect(shown()).toEqual(COMPLETE);
    expect(transcript.active).toBeUndefined();
    expect(transcript.busy).toBe(false);
    expect(answers().every((item) => !item.live)).toBe(true);
  });

  test('the history shows the same, and its events after that add nothing', () => {
    transcript.load({ messages: HISTORY, pending: 0 });
    expect(shown()).toEqual(COMPLETE);
    expect(play(RUN)).toBe(false);
    expect(shown()).toEqual(COMPLETE);
  });

  test('its last events again, after it ended: nothing twice', () => {
    transcript.load(EMPTY);
    type('m1', 'Time?');
    play(RUN);
    play(RUN.slice(-5));
    expect(shown()).toEqual(COMPLETE);
  });

  test.each(RUN.map((_body, at) => at).slice(1))(
    'joined before its event %i: complete once it is read',
    (at) => {
      transcript.load({ messages: [], pending: 1, run: 'r1' });
      expect(transcript.active).toBe('r1');
      const readAgain = play(RUN.slice(at));
      expect(readAgain).toBe(true);
      transcript.load({ messages: HISTORY, pending: 0 });
      expect(shown()).toEqual(COMPLETE);
    },
  );

  test.each(RUN.map((_body, at) => at))('loaded in its middle (%i) and replayed from its start', (at) => {
    transcript.load(EMPTY);
    type('m1', 'Time?');
    play(RUN.slice(0, at));
    // The page was reloaded.
    transcript = createTranscript();
    type('m1', 'Time?');
    transcript.sent('m1');
    transcript.load({ messages: [], pending: 1, run: 'r1' });
    expect(play(RUN)).toBe(false);
    expect(shown()).toEqual(COMPLETE);
  });
});

describe('streams that start again', () => {
  test('a reset forgets the message that was being written, and only that', () => {
    transcript.load(EMPTY);
    play(RUN.slice(0, 12));
    play([{ type: 'message_update', delta: 'It is mid' }, { type: 'message_reset' }]);
    expect(shown()).toEqual(['text: Let me look.', 'now done "noon"']);
    play(RUN.slice(12));
    expect(shown()).toEqual(COMPLETE.slice(1));
  });

  test('a run that another worker resumes: what was unfinished is written anew', () => {
    transcript.load(EMPTY);
    type('m1', 'Time?');
    play([...RUN.slice(0, 12), { type: 'message_update', delta: 'It is n' }]);
    play([{ type: 'agent_start', messages: ['m1'], resumed: true }]);
    expect(shown()).toEqual(COMPLETE.slice(0, 3));
    const readAgain = play(RUN.slice(10));
    expect(shown()).toEqual(COMPLETE);
    expect(readAgain).toBe(true);
  });

  test.each([4, 6, 9, 13])(
    'a run whose worker died before it had kept anything (after %i events) starts over',
    (at) => {
      transcript.load(EMPTY);
      type('m1', 'Time?');
      play(RUN.slice(0, at));
      expect(play(RUN)).toBe(false);
      expect(shown()).toEqual(COMPLETE);
    },
  );

  test('after a resync: what was seen of the run stays until the history has it', () => {
    transcript.load(EMPTY);
    type('m1', 'Time?');
    play(RUN.slice(0, 9));
    transcript.load({ messages: [], pending: 1 });
    expect(shown()).toEqual(COMPLETE.slice(0, 3));
    play([{ type: 'agent_start', messages: ['m1'], resumed: true }, ...RUN.slice(10)]);
    transcript.load({ messages: HISTORY, pending: 0 });
    expect(shown()).toEqual(COMPLETE);
  });
});

describe('messages while a run is on', () => {
  test('one that is taken into it stands before what comes next, the others wait', () => {
    transcript.load(EMPTY);
    type('m1', 'Time?');
    play(RUN.slice(0, 10));
    type('m2', 'In Berlin');
    type('m3', 'And thanks');
    expect(shown().slice(-2)).toEqual(['user sending: In Berlin', 'user sending: And thanks']);
    play([{ type: 'steered', messages: ['m2'] }, ...RUN.slice(10)]);
    expect(shown()).toEqual([
      ...COMPLETE.slice(0, 3),
      'user taken: In Berlin',
      'text: It is noon.',
      'user sending: And thanks',
    ]);
    expect(answers()).toHaveLength(2);
  });

  test('the event that it was taken may come before the server’s answer to the request', () => {
    transcript.load(EMPTY);
    type('m1', 'Time?');
    play(RUN.slice(0, 1));
    transcript.sent('m1');
    expect(shown()).toEqual(['user taken: Time?']);
  });

  test('one that another page sent is read from the history', () => {
    transcript.load(EMPTY);
    expect(play(RUN)).toBe(true);
  });
});

describe('ends that are not normal', () => {
  test('stopped: the text so far stays, and says so', () => {
    transcript.load(EMPTY);
    type('m1', 'Time?');
    play(RUN.slice(0, 4));
    play([{ type: 'agent_cancelled' }, end('Let me (cancelled)', { stop: 'aborted' })]);
    expect(shown()).toEqual(['user taken: Time?', 'text: Let me ', 'stopped']);
  });

  test('stopped while a tool runs: it does not run for ever', () => {
    transcript.load(EMPTY);
    play([...RUN.slice(0, 7), { type: 'agent_cancelled' }, end('Cancelled.', { stop: 'aborted' })]);
    expect(shown()).toEqual(['text: Let me look.', 'now unknown null', 'stopped']);
  });

  test('failed: the sentence, once', () => {
    transcript.load(EMPTY);
    const message = 'The model did not answer.';
    play([...RUN.slice(0, 2), { type: 'error', code: 'model_unavailable', message }]);
    play([end(message, { status: 'failed', stop: 'error' })]);
    expect(shown()).toEqual([`error: ${message}`]);
  });

  test('a reply that was never streamed is shown', () => {
    transcript.load(EMPTY);
    play([...RUN.slice(0, 2), end('Sorry, no answer.')]);
    expect(shown()).toEqual(['text: Sorry, no answer.']);
  });

  test('a reset conversation is empty, and what only the page knows stays', () => {
    transcript.load({ messages: HISTORY, pending: 0 });
    transcript.notice('All right.');
    transcript.load(EMPTY);
    expect(shown()).toEqual(['notice: All right.']);
  });

  test('a refused message keeps its place, is not taken for sent, and can be sent again', () => {
    transcript.load(EMPTY);
    type('m0', 'x'.repeat(10));
    transcript.refused('m0', { status: 422 } as never);
    type('m1', 'Time?');
    play(RUN);
    expect(shown()).toEqual(['user failed: xxxxxxxxxx', ...COMPLETE]);
    expect(transcript.has('m0')).toBe(false);
    transcript.load({ messages: HISTORY, pending: 0 });
    expect(shown()).toEqual(['user failed: xxxxxxxxxx', ...COMPLETE]);
    transcript.remove('m0');
    type('m0', 'short');
    expect(shown().at(-1)).toBe('user sending: short');
  });
});

describe('older pages', () => {
  test('come before, and join an answer that they cut in two', () => {
    transcript.load({ messages: HISTORY.slice(2), pending: 0, cursor: '2' });
    expect(shown()).toEqual(['text: It is noon.']);
    transcript.prepend({ messages: HISTORY.slice(0, 2) });
    expect(shown()).toEqual(COMPLETE);
    expect(transcript.cursor).toBeUndefined();
  });

  test('leave a live run where it is', () => {
    transcript.load({ messages: HISTORY.slice(2), pending: 0, cursor: '2' });
    type('m2', 'Again?');
    play([{ type: 'agent_start', messages: ['m2'] }, ...RUN.slice(1, 5)], 'r2');
    transcript.prepend({ messages: HISTORY.slice(0, 2) });
    expect(shown()).toEqual([...COMPLETE, 'user taken: Again?', 'text: Let me look.']);
    play([{ type: 'message_update', delta: ' Wait.' }], 'r2');
    expect(shown().at(-1)).toBe('text: Let me look. Wait.');
  });
});

test('reasoning: closed with the time it took', () => {
  let time = 0;
  transcript = createTranscript({ now: () => time });
  transcript.load(EMPTY);
  play([...RUN.slice(0, 3), { type: 'reasoning_update', delta: 'Hm' }]);
  time = 2_500;
  play([
    { type: 'message_update', delta: 'Yes' },
    {
      type: 'message_end',
      message: {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm' },
          { type: 'text', text: 'Yes' },
        ],
      },
    },
  ]);
  expect(answers()[0]?.parts).toEqual([
    { type: 'thinking', text: 'Hm', durationMs: 2_500 },
    { type: 'text', text: 'Yes' },
  ]);
});

test('what did not change is not drawn again', () => {
  transcript.load({ messages: HISTORY, pending: 0 });
  const before = transcript.items.map((item) => item.rev);
  type('m2', 'More?');
  play([{ type: 'agent_start', messages: ['m2'] }, ...RUN.slice(1, 5)], 'r2');
  expect(transcript.items.slice(0, before.length).map((item) => item.rev)).toEqual(before);
});
