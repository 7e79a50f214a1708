// The context: estimated, fitted once before the loop, summed up by the model, and healed when the model says "too long".
import { describe, expect, it } from 'vitest';
import { createCalibration, type AgentResult } from '../../src/agent/index.ts';
import { totalTokens } from '../../src/agent/context/budget.ts';
import { estimateMessage, estimateText } from '../../src/agent/context/estimate.ts';
import { turnStarts } from '../../src/agent/context/fit.ts';
import { numbersIn } from '../../src/agent/context/overflow.ts';
import type { HistoryEntry, Message } from '../../src/domain/messages.ts';
import type { ModelRequest } from '../../src/ports/model.ts';
import { success } from '../../src/ports/tool.ts';
import {
  assistant,
  brief,
  messagesOf,
  play,
  scriptedModel,
  settingsOf,
  settled,
  start,
  tool,
  user,
  type DeepPartial,
  type PlayOptions,
  type Step,
} from '../fakes/agent.ts';
import type { AgentSettings } from '../../config/schema.ts';

const isSummary = ({ system }: ModelRequest) => system.startsWith('You keep the memory');

/** `n` turns of about `tokens` estimated tokens each, both sides together. */
function history(n: number, tokens = 100): Message[] {
  const text = 'word '.repeat(Math.floor(tokens / 2 / 0.9));
  return Array.from({ length: n }, (_, index) => [
    user(`question ${index} ${text}`),
    assistant(`answer ${index} ${text}`),
  ]).flat();
}

/** Sums up when asked to; else plays the steps. */
function summariser(
  steps: Step[],
  more: Parameters<typeof scriptedModel>[1] = {},
  summary: Step = 'They spoke of many things.',
) {
  const rest = [...steps];
  return scriptedModel(
    Array.from(
      { length: 1_000 },
      () => (request: ModelRequest) => (isSummary(request) ? summary : (rest.shift() ?? 'done')),
    ),
    more,
  );
}

const summaryText = (summary: string) =>
  `user: Summary of the conversation so far (older messages are not shown):\n${summary}`;

describe('the estimate', () => {
  it.each<[string, string, number]>([
    ['letters', 'abcdefghij', 2],
    ['digits', '0123456789', 5],
    ['white space', ' \n\t ', 0.4],
    ['punctuation', '{}[]":,.;!', 6],
    ['Chinese', '你好世界你好世界你好', 8],
    ['full-width punctuation', '，。！？：；「」（）', 8],
    ['other', 'éèêëēėę', 7],
  ])('of %s', (_name, text, tokens) => {
    expect(estimateText(text)).toBeCloseTo(tokens);
  });

  it.each<[string, Message['content'][number], number]>([
    ['a picture', { type: 'image', media_type: 'image/png', ref: 'x' }, 1_204],
    ['a call', { type: 'tool_use', id: 'x', name: 'aaaaa', input: {} }, 4 + 50 + 1 + 1.2],
    ['a result', { type: 'tool_result', tool_use_id: 'x', content: 'aaaaa' }, 4 + 30 + 1],
    [
      'a result of parts',
      { type: 'tool_result', tool_use_id: 'x', content: [{ type: 'text', text: 'aaaaa' }] },
      4 + 30 + 1,
    ],
  ])('of %s', (_name, block, tokens) => {
    expect(estimateMessage({ role: 'user', content: [block] })).toBeCloseTo(tokens);
  });

  it('is scaled by what the model reports', async () => {
    const calibration = createCalibration();
    const long = 'word '.repeat(2_000);
    const usage = { input: 3_600, output: 1, cached: 0 };
    await play({ prompts: [long], model: scriptedModel([{ text: 'ok', usage }]), calibration });
    expect(calibration.factor('scripted')).toBeCloseTo(3_600 / estimateText(long), 1);
    expect(calibration.factor('other')).toBe(1);
  });

  it('is not thrown off by small requests or wild reports', async () => {
    const calibration = createCalibration();
    await play({
      model: scriptedModel([{ text: 'ok', usage: { input: 90, output: 1, cached: 0 } }]),
      calibration,
    });
    expect(calibration.factor('scripted')).toBe(1);
    const usage = { input: 900_000, output: 1, cached: 0 };
    await play({
      prompts: ['word '.repeat(500)],
      model: scriptedModel([{ text: 'ok', usage }]),
      calibration,
    });
    expect(calibration.factor('scripted')).toBe(3);
  });
});

describe('the budget', () => {
  it.each<[string, number, DeepPartial<AgentSettings>, number]>([
    ['60 % of the window', 128_000, {}, 76_800],
    ['at least 8,000 are reserved', 18_000, {}, 10_000],
    ['but never more than half the window', 8_000, {}, 4_000],
    ['at most 400,000 are reserved', 2_000_000, { max_context_tokens: 1e9 }, 1_600_000],
    ['max_context_tokens caps it', 1_000_000, { max_context_tokens: 50_000 }, 50_000],
    ['the ratio is a setting', 100_000, { context: { reserve_ratio: 0.25 } }, 75_000],
  ])('%s', (_name, window, settings, tokens) => {
    expect(totalTokens(window, settingsOf(settings))).toBe(tokens);
  });
});

describe('turn starts', () => {
  it('are what people said after what the assistant did', () => {
    const calls: Message = {
      role: 'assistant',
      content: [{ type: 'tool_use', id: 'x', name: 'x', input: {} }],
    };
    const results: Message = {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'x', content: 'x' }],
    };
    expect(
      turnStarts([
        user('a'),
        user('b'),
        calls,
        results,
        assistant('c'),
        user('d'),
        calls,
        results,
        user('e'),
      ]),
    ).toEqual([0, 5, 8]);
  });
});

describe('fitting', () => {
  it('leaves alone what fits', async () => {
    const model = summariser(['ok']);
    const { result } = await play({ model, messages: history(20) });
    expect(result.context).toBeUndefined();
    expect(model.requests).toHaveLength(1);
    expect(model.requests[0]!.messages).toHaveLength(41);
  });

  it('over the budget: older turns become the summary, the newest stay', async () => {
    const model = summariser(['ok'], { contextWindow: 20_000 });
    const { result, events } = await play({
      model,
      messages: history(200),
      contextFrom: 1_000,
      summary: 'Before that: nothing.',
    });
    const [summing, answering] = [model.requests[0], model.requests.at(-1)];
    expect(isSummary(answering!)).toBe(false);
    expect(JSON.stringify(summing!.messages)).toContain('Before that: nothing.');
    const shown = brief(answering!.messages);
    expect(shown[0]).toBe(summaryText('They spoke of many things.'));
    expect(shown.at(-1)).toBe('user: hi');
    expect(shown.at(-2)).toContain('answer 199 ');
    // The index is a turn's start, counted in the whole history.
    const kept = (answering!.messages.length - 1) / 2;
    expect(result.context).toEqual({ from: 1_000 + 400 - kept * 2, summary: 'They spoke of many things.' });
    // Down to half of what is left for messages, so that the next runs need not compact again.
    expect(kept).toBeGreaterThan(40);
    expect(kept).toBeLessThan(70);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'compacted', dropped: 400 - kept * 2, summary: true }),
    );
    // The history itself is never part of what is merged.
    expect(brief(messagesOf(result))).toEqual(['user: hi', 'assistant: ok']);
    expect(result.usage.input).toBeGreaterThanOrEqual(20);
  });

  it('over max_context_turns: likewise', async () => {
    const model = summariser(['ok']);
    const { result } = await play({ model, messages: history(11, 10), settings: { max_context_turns: 10 } });
    expect(result.context?.from).toBe((11 - 5) * 2);
  });

  it('what is fitted is not fitted again by the next run', async () => {
    const model = summariser(['ok', 'ok'], { contextWindow: 20_000 });
    const messages = history(200);
    const { result } = await play({ model, messages });
    const { from, summary } = result.context!;
    const next = await play({
      model,
      messages: [...messages, ...messagesOf(result)].slice(from),
      ...(summary ? { summary } : {}),
    });
    expect(next.result.context).toBeUndefined();
    expect(isSummary(model.requests.at(-2)!)).toBe(false);
  });

  it('a summary that is too long is cut', async () => {
    const model = summariser(['ok'], { contextWindow: 20_000 }, '长'.repeat(10_000));
    const { result } = await play({ model, messages: history(200) });
    expect(estimateText(result.context!.summary!)).toBeLessThanOrEqual(1_010);
  });

  it('a past that is longer than the window is summed up piece by piece', async () => {
    const model = summariser(['ok'], { contextWindow: 20_000 });
    await play({ model, messages: history(400) });
    const pieces = model.requests.filter(isSummary);
    expect(pieces.length).toBeGreaterThan(2);
    for (const { messages } of model.requests)
      expect(estimateMessage(messages[0]!)).toBeLessThan(20_000 * 0.5);
    expect(JSON.stringify(pieces[1]!.messages)).toContain('They spoke of many things.');
  });

  it.each<[string, Step, boolean]>([
    [
      'for now: the turns are left out of this run only',
      { fail: { kind: 'overloaded', retryable: true } },
      false,
    ],
    ['for good: they are dropped', { fail: { kind: 'refused' } }, true],
    ['with an empty summary: they are dropped', '', true],
  ])('if summing up fails %s', async (_name, summary, kept) => {
    const model = summariser(['ok'], { contextWindow: 20_000 }, summary);
    const { result, events } = await play({ model, messages: history(200), summary: 'Old.' });
    expect(result.reply).toBe('ok');
    const shown = brief(model.requests.at(-1)!.messages);
    expect(shown[0]).toBe(summaryText('Old.'));
    expect(shown.length).toBeLessThan(150);
    if (kept) expect(result.context).toEqual({ from: expect.any(Number), summary: 'Old.' });
    else expect(result.context).toBeUndefined();
    expect(events).toContainEqual(expect.objectContaining({ type: 'compacted', summary: false }));
  });

  it('one turn that is larger than the budget becomes the summary as well', async () => {
    const model = summariser(['ok'], { contextWindow: 20_000 });
    const { result } = await play({ model, messages: [...history(3), ...history(1, 30_000)] });
    expect(brief(model.requests.at(-1)!.messages)).toEqual([
      summaryText('They spoke of many things.'),
      'user: hi',
    ]);
    expect(result.context?.from).toBe(8);
  });

  it('a cancel is felt while the model sums up', async () => {
    const run = start({
      messages: history(200),
      model: scriptedModel(
        [
          async function* (_request, signal) {
            await new Promise((resolve) => signal.addEventListener('abort', resolve));
            yield { type: 'failed', stop: 'aborted', content: [], model: 'x' } as const;
          },
        ],
        { contextWindow: 20_000 },
      ),
    });
    await settled();
    run.cancel();
    const result = await run.result;
    expect(result).toMatchObject({ stop: 'aborted', reply: 'Cancelled.' });
    expect(result.context).toBeUndefined();
  });
});

describe('"too long"', () => {
  const overflow: Step = {
    fail: { kind: 'overflow', message: 'prompt is too long: 30000 tokens > 20000 maximum' },
  };

  it('older turns are summed up, and the call is made again: the run goes on', async () => {
    const model = summariser([overflow, 'ok'], { contextWindow: 128_000 });
    const { result, events } = await play({ model, messages: history(90, 300) });
    expect(result).toMatchObject({ reply: 'ok', status: 'done', turns: 1 });
    expect(result.context).toMatchObject({ summary: 'They spoke of many things.' });
    expect(model.requests.at(-1)!.messages.length).toBeLessThan(model.requests[0]!.messages.length);
    expect(brief(model.requests.at(-1)!.messages).at(-2)).toContain('answer 89 ');
    expect(events).toContainEqual(expect.objectContaining({ type: 'compacted', summary: true }));
    expect(events.some(({ type }) => type === 'error')).toBe(false);
  });

  it('in the middle of a run: its own chain of calls is kept', async () => {
    const model = summariser([
      { calls: [['echo', { a: 1 }]] },
      { calls: [['echo', { a: 2 }]] },
      overflow,
      'ok',
    ]);
    const { result } = await play({ model, messages: history(90, 300), tools: [tool('echo')] });
    expect(result.reply).toBe('ok');
    const chain = ['user: hi', 'call echo {"a":1}', 'result {"a":1}', 'call echo {"a":2}', 'result {"a":2}'];
    expect(brief(model.requests.at(-1)!.messages).slice(-5)).toEqual(chain);
    expect(brief(messagesOf(result))).toEqual([...chain, 'assistant: ok']);
  });

  it('when the chain itself is too long: its results are shortened, none is lost', async () => {
    const long = tool('long', async () => success('x '.repeat(25_000)));
    const model = summariser([{ calls: [['long'], ['long'], ['long']] }, overflow, 'ok'], {
      contextWindow: 20_000,
    });
    const { result } = await play({ model, tools: [long] });
    expect(result.reply).toBe('ok');
    const seen = model.requests
      .at(-1)!
      .messages[2]!.content.map((block) => (block.type === 'tool_result' ? block.content.length : 0));
    expect(seen).toHaveLength(3);
    for (const length of seen) expect(length).toBeLessThanOrEqual(8_000);
    expect(messagesOf(result)[2]).toEqual(model.requests.at(-1)!.messages[2]);
  });

  it('again: the user is told, the history is kept, and marked for compaction', async () => {
    const model = summariser([overflow, overflow]);
    const messages = history(90, 300);
    const { result } = await play({ model, messages });
    expect(result).toMatchObject({ status: 'failed', stop: 'error' });
    expect(result.reply).toContain('more than the model can read');
    expect(result.entries.at(-1)).toMatchObject({ compact: true });
    expect(model.requests.filter((request) => !isSummary(request))).toHaveLength(2);
    // The next run sums all of it up, whatever the estimate says.
    const { from, summary } = result.context!;
    const next = await play({
      model: summariser(['ok']),
      messages: [
        ...messages,
        ...result.entries.map(({ message, compact = false }) => Object.assign({ compact }, message)),
      ].slice(from),
      contextFrom: from,
      ...(summary === undefined ? {} : { summary }),
    });
    expect(next.result.context).toEqual({ from: 182, summary: 'They spoke of many things.' });
    expect(brief(next.model.requests.at(-1)!.messages)).toEqual([
      summaryText('They spoke of many things.'),
      'user: hi',
    ]);
  });

  it('with nothing that could be shorter: no second call', async () => {
    const model = summariser([overflow, 'never']);
    const { result } = await play({ model });
    expect(result.reply).toContain('more than the model can read');
    expect(model.requests).toHaveLength(1);
  });

  it('what the model says of its window is believed from then on', async () => {
    const calibration = createCalibration();
    const model = summariser([overflow, 'ok', 'ok'], { contextWindow: 128_000 });
    const messages = history(90, 300);
    await play({ model, messages, calibration });
    expect(calibration.window('scripted')).toBe(20_000);
    const before = model.requests.length;
    await play({ model, messages, calibration });
    expect(model.requests.slice(before).map(isSummary).slice(0, 1)).toEqual([true]);
  });

  it('is healed in the nudge and at the step limit as well', async () => {
    const call: Step = { calls: [['echo']] };
    const nudged = summariser([call, '', '', overflow, 'ok']);
    expect(
      (await play({ model: nudged, messages: history(90, 300), tools: [tool('echo')] })).result.reply,
    ).toBe('ok');
    expect(JSON.stringify(nudged.requests.at(-1)!.messages)).toContain('You gave no answer');
    const limited = summariser([call, overflow, 'sum']);
    const settings = { max_steps: 1 };
    const { result } = await play({
      model: limited,
      messages: history(90, 300),
      tools: [tool('echo')],
      settings,
    });
    expect(result.reply).toBe('sum');
    expect(JSON.stringify(result.entries)).not.toContain('reached the limit');
  });

  it.each<[string, ReturnType<typeof numbersIn>]>([
    [
      'maximum context length is 65536 tokens. However, you requested 69648 tokens (69648 in the messages',
      { limit: 65_536, requested: 69_648 },
    ],
    ['prompt is too long: 208310 tokens > 200000 maximum', { limit: 200_000, requested: 208_310 }],
    ['Range of input length should be [1, 204800]', { limit: 204_800 }],
    [
      'The input (61,709 tokens) is longer than the context length (40,960 tokens).',
      { limit: 40_960, requested: 61_709 },
    ],
    ['199759 + 8192 > 200000', {}],
    ['try increasing it', {}],
    ['2026-11-30T10:00:00Z req_20261130 gpt-4.1-2025 (v2.1024): too long', {}],
    ['the limit is 32768.', { limit: 32_768 }],
  ])('numbers in "%s"', (message, wanted) => {
    expect(numbersIn(message)).toEqual(wanted);
  });
});

describe('a conversation of 2,000 turns through a window of 8,000', () => {
  it('never fails, never loses its newest turns, and its cost per message stays flat', async () => {
    const calibration = createCalibration();
    const window = 8_000;
    const stored: HistoryEntry[] = [];
    let context: NonNullable<AgentResult['context']> = { from: 0 };
    const costs: number[] = [];
    let sent = 0;
    // A model of its own mind: counts tokens another way than the estimate does, and refuses what is too long.
    const model = scriptedModel(
      Array.from({ length: 20_000 }, () => (request: ModelRequest): Step => {
        const tokens = Math.ceil((JSON.stringify(request.messages).length + request.system.length) / 3);
        sent += tokens;
        if (tokens + 1_000 > window)
          return { fail: { kind: 'overflow', message: 'the request exceeds the context size' } };
        const usage = { input: tokens, output: 50, cached: 0 };
        if (isSummary(request))
          return { text: `They spoke, up to: ${JSON.stringify(request.messages).slice(-60)}`, usage };
        const said = brief(request.messages).at(-1) ?? '';
        return { text: `You said: ${said}. ${'Indeed. '.repeat(said.length % 37)}`, usage };
      }),
      { contextWindow: window, maxOutputTokens: 1_000 },
    );
    for (let turn = 0; turn < 2_000; turn++) {
      sent = 0;
      const text = `message ${turn} ${'你好, world! '.repeat((turn * 7) % 41)}`;
      const options: PlayOptions = {
        model,
        messages: stored.slice(context.from),
        contextFrom: context.from,
        prompts: [text],
        calibration,
        ...(context.summary === undefined ? {} : { summary: context.summary }),
      };
      const { result } = await play(options);
      expect(result.status).toBe('done');
      const shown = brief(model.requests.at(-1)!.messages);
      expect(shown.at(-1)).toBe(`user: ${text}`);
      for (const back of [1, 2].filter((n) => n <= turn)) {
        expect(shown.some((line) => line.startsWith(`user: message ${turn - back} `))).toBe(true);
      }
      model.requests.length = 0;
      stored.push(...result.entries.map(({ message, at }) => ({ ...message, at, run: 'r' })));
      context = result.context ?? context;
      costs.push(sent);
    }
    const mean = (list: number[]) => list.reduce((sum, cost) => sum + cost, 0) / list.length;
    const [early, late] = [mean(costs.slice(100, 300)), mean(costs.slice(-200))];
    expect(late).toBeLessThan(early * 1.2);
    expect(stored).toHaveLength(4_000);
    expect(context.from).toBeGreaterThan(3_800);
  }, 60_000);
});
