// For any sequence of model replies, tool outcomes, cancels, interruptions, messages and faults: what holds for every run.
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AgentPrompt, AgentResult } from '../../src/agent/index.ts';
import { HINT, LIMIT, NUDGE } from '../../src/agent/wording.ts';
import type { RunEvent } from '../../src/domain/events.ts';
import type { Block, Message } from '../../src/domain/messages.ts';
import { createRequestBuilder as anthropicBuilder } from '../../src/models/anthropic/request.ts';
import { createRequestBuilder as openaiBuilder } from '../../src/models/openai/request.ts';
import { resolveEntry } from '../../src/models/settings.ts';
import type { JournalEntry } from '../../src/ports/store.ts';
import { fail, success, type Tool } from '../../src/ports/tool.ts';
import {
  merge,
  messagesOf,
  prompt,
  scriptedModel,
  settled,
  start,
  tool,
  violationsOf,
  type Controls,
  type Play,
  type Step,
} from '../fakes/agent.ts';
import { anthropicRules, rejectAnthropic } from '../fakes/model/anthropic-strict.ts';
import { openaiRules, rejectOpenAI } from '../fakes/model/openai-strict.ts';

const callArb = fc.tuple(
  fc.constantFrom('good', 'bad', 'throwing', 'ending', 'together', 'nobody'),
  fc.constantFrom('{}', '{"a":1}', '{"a":', 'prose', '', '{"a":1,}'),
  fc.constantFrom('', 'same', 'call_1', 'call_2', 'x'),
);

const stepArb: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom<Step>('An answer.', 'Another answer.') },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Step>('', ' ', { content: [{ type: 'thinking', thinking: 'hm' }] }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      text: fc.constantFrom('', 'Let me see.'),
      calls: fc.array(callArb, { minLength: 1, maxLength: 4 }),
      stop: fc.constantFrom<'stop' | 'length' | 'tool_use'>('stop', 'length', 'tool_use'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      fail: fc.record({
        kind: fc.constantFrom<'overflow' | 'network' | 'refused'>('overflow', 'network', 'refused'),
      }),
      partial: fc.constantFrom('', 'Half an'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Step>(
      () => {
        throw new Error('boom');
      },
      async function* () {
        yield { type: 'text', delta: 'cut' };
      },
      async function* () {
        yield { type: 'text', delta: 'first' };
        yield { type: 'reset' };
        yield { type: 'text', delta: 'second' };
        yield { type: 'done', content: [{ type: 'text', text: 'second' }], stop: 'stop', model: 'm' };
      },
    ),
  },
);

const blockArb: fc.Arbitrary<Block> = fc.oneof(
  fc.constantFrom('hi', '', 'there').map((text): Block => ({ type: 'text', text })),
  fc.constantFrom('a', 'b').map((id): Block => ({ type: 'tool_use', id, name: 'good', input: {} })),
  fc.constantFrom('a', 'b').map((id): Block => ({ type: 'tool_result', tool_use_id: id, content: 'r' })),
);

/** Stored contexts of every kind of brokenness. */
const historyArb: fc.Arbitrary<Message[]> = fc.array(
  fc.record({
    role: fc.constantFrom<'user' | 'assistant'>('user', 'assistant'),
    content: fc.array(blockArb, { maxLength: 3 }),
  }),
  { maxLength: 6 },
);

const scenarioArb = fc.record({
  script: fc.array(stepArb, { maxLength: 14 }),
  history: historyArb,
  settings: fc.record({
    max_steps: fc.integer({ min: 1, max: 6 }),
    steering: fc.constantFrom<'all' | 'one-at-a-time'>('all', 'one-at-a-time'),
    follow_up: fc.constantFrom<'all' | 'one-at-a-time'>('all', 'one-at-a-time'),
    empty_reply_retries: fc.integer({ min: 0, max: 2 }),
    breakers: fc.record({
      same_call: fc.integer({ min: 0, max: 3 }),
      same_call_failed: fc.integer({ min: 0, max: 3 }),
      tool_failed: fc.integer({ min: 0, max: 3 }),
      tool_failed_end: fc.integer({ min: 0, max: 6 }),
      repeat_hint: fc.integer({ min: 0, max: 2 }),
    }),
  }),
  // How many messages wait at each look into the inbox.
  arrivals: fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 12 }),
  // Stop when so many events have come.
  stopAt: fc.option(fc.integer({ min: 1, max: 60 }), { nil: undefined }),
});

interface Scenario {
  script: Step[];
  history: Message[];
  settings: NonNullable<Parameters<typeof start>[0]>['settings'];
  arrivals: number[];
  stopAt: number | undefined;
}

/** Tools of every outcome, and how often each call was executed. */
function tools(executions: Map<string, number>): Tool[] {
  const make = (name: string, outcome: () => Promise<ReturnType<typeof success>>, more: Partial<Tool> = {}) =>
    tool(
      name,
      (_args, { callId }) => {
        executions.set(callId, (executions.get(callId) ?? 0) + 1);
        return outcome();
      },
      more,
    );
  return [
    make('good', async () => success('fine')),
    make('bad', async () => fail('no')),
    make('throwing', () => Promise.reject(new Error('oops'))),
    make('ending', async () => success('bye', { terminate: true })),
    make('together', async () => success('both'), { execution: 'parallel' }),
  ];
}

/** An inbox that remembers what it handed over. */
function inbox(arrivals: readonly number[]) {
  const taken: AgentPrompt[] = [];
  let looks = 0;
  const take = async () => {
    const count = arrivals[looks++] ?? 0;
    const prompts = Array.from({ length: count }, (_, n) =>
      prompt(`message ${taken.length + n}`, `m${taken.length + n}`),
    );
    taken.push(...prompts);
    return prompts;
  };
  return { take, taken };
}

const RUNS = { numRuns: 300 };

const openai = { provider: 'openai', model: 'm', base_url: 'http://x/v1' } as const;
const builders = {
  openai: openaiBuilder(resolveEntry('a', openai)),
  picky: openaiBuilder(
    resolveEntry('b', { ...openai, flags: { bridge_tool_results: true, call_ids: 'mistral' } }),
  ),
  anthropic: anthropicBuilder(resolveEntry('c', { provider: 'anthropic', model: 'm' })),
};
const specs = tools(new Map()).map(({ name, description, parameters }) => ({
  name,
  description,
  parameters,
}));

/** What OpenAI, the pickiest of those who copy it, and Anthropic would answer to these messages, by the strict fakes' rules. */
function rejections(messages: Message[]): string[] {
  const asked = { system: 'You are a test.', messages, tools: specs, allowTools: true, cacheKey: 'c' };
  return [
    rejectOpenAI(builders.openai.build(asked), openaiRules),
    rejectOpenAI(builders.picky.build(asked), {
      ...openaiRules,
      alternate: true,
      callId: /^[A-Za-z0-9]{9}$/u,
    }),
    rejectAnthropic(builders.anthropic.build(asked), anthropicRules),
  ].flatMap((rejection) => rejection?.message ?? []);
}

function checkResult(result: AgentResult, events: RunEvent[], taken: AgentPrompt[], maxSteps: number): void {
  const history = messagesOf(result);
  expect(violationsOf(merge(history))).toEqual([]);
  expect(rejections(history)).toEqual([]);
  // Injected prompts leave no trace.
  const text = JSON.stringify(result.entries);
  for (const injected of [NUDGE, LIMIT, HINT]) expect(text).not.toContain(injected);
  // Every message that was taken is there, once, in order.
  const ids = result.entries.flatMap(({ id }) => id ?? []);
  expect(ids).toEqual(['p1', ...taken.map(({ id }) => id)]);
  expect(result.turns).toBeLessThanOrEqual(maxSteps + 1);
  expect(result.reply).not.toBe('');
  expect(events.at(-1)).toMatchObject({ type: 'agent_end', reply: result.reply });
  const count = (type: RunEvent['type']) => events.filter((event) => event.type === type).length;
  expect(count('tool_execution_end')).toBe(count('tool_execution_start'));
  // A resumed run ends a turn that the interrupted one had started.
  const resumed = events.some((event) => event.type === 'agent_start' && event.resumed);
  expect(resumed ? [0, 1] : [0]).toContain(count('turn_end') - count('turn_start'));
}

const turnStarts = (events: RunEvent[]) => events.filter(({ type }) => type === 'turn_start').length;
const resets = (events: RunEvent[]) => events.filter(({ type }) => type === 'message_reset').length;

function begin(
  scenario: Scenario,
  onEvent: (controls: Controls, count: number) => void,
  executions = new Map<string, number>(),
) {
  const box = inbox(scenario.arrivals);
  let count = 0;
  const run = start({
    model: scriptedModel(scenario.script),
    messages: scenario.history,
    tools: tools(executions),
    settings: scenario.settings ?? {},
    steering: box.take,
    followUp: box.take,
    onEvent: (_event, controls) => onEvent(controls, ++count),
  });
  return { run, box };
}

describe('any run', () => {
  it('ends, with a valid history, within max_steps + 1 model calls plus retries', async () => {
    await fc.assert(
      fc.asyncProperty(scenarioArb, async (scenario) => {
        const { run, box } = begin(scenario, () => undefined);
        const result = await run.result;
        checkResult(result, run.events, box.taken, scenario.settings.max_steps);
        expect(run.model.violations).toEqual([]);
        expect(turnStarts(run.events)).toBeLessThanOrEqual(scenario.settings.max_steps + 1);
        const calls = run.model.requests.filter(({ system }) => system === 'You are a test.');
        expect(calls.length).toBeLessThanOrEqual(turnStarts(run.events) + resets(run.events));
        expect(calls.flatMap(({ messages }) => rejections(messages))).toEqual([]);
      }),
      RUNS,
    );
  });

  it('that is cancelled at any point ends in order, with a valid history', async () => {
    await fc.assert(
      fc.asyncProperty(scenarioArb, async (scenario) => {
        const { run, box } = begin(
          scenario,
          (controls, count) => count === scenario.stopAt && controls.cancel(),
        );
        const result = await asTimeGoesOn(run);
        checkResult(result, run.events, box.taken, scenario.settings.max_steps);
        expect(run.model.violations).toEqual([]);
      }),
      RUNS,
    );
  });

  it('that is interrupted at any point goes on from its journal: no effect twice, nothing lost', async () => {
    await fc.assert(
      fc.asyncProperty(scenarioArb, fc.array(stepArb, { maxLength: 6 }), async (scenario, rest) => {
        const executions = new Map<string, number>();
        const { run, box } = begin(
          scenario,
          (controls, count) => count === scenario.stopAt && controls.interrupt('lost'),
          executions,
        );
        const first = await run.result.catch((error: unknown) => error as Error);
        if (!(first instanceof Error)) return;
        const journal: JournalEntry[] = run.writes.flat();
        const again = start({
          model: scriptedModel(rest),
          messages: scenario.history,
          tools: tools(executions),
          settings: scenario.settings ?? {},
          prompts: [prompt('hi', 'p1'), ...box.taken],
          resume: journal,
        });
        const result = await again.result;
        checkResult(result, again.events, box.taken, scenario.settings.max_steps);
        expect(again.model.violations).toEqual([]);
        for (const [callId, times] of executions) {
          const journaled = journal.some((entry) => 'call_id' in entry && entry.call_id === callId);
          // What the journal knows to have started is not done again.
          if (journaled) expect([callId, times]).toEqual([callId, 1]);
        }
      }),
      RUNS,
    );
  });
});

/** So that a cancelled run leaves behind what ignores its signal. */
async function asTimeGoesOn({ result, clock }: Play): Promise<AgentResult> {
  const ended = new AbortController();
  const end = () => ended.abort();
  result.then(end, end);
  while (!ended.signal.aborted) {
    await settled();
    await clock.advance(100);
  }
  return result;
}
