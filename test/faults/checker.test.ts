// The checker of the fault campaign: each promise that is broken in what a round left behind is told.
import { describe, expect, test } from 'vitest';
import type { HistoryEntry } from '../../src/domain/messages.ts';
import { check, type Facts } from './campaign/checker.ts';
import type { Callback } from './campaign/receiver.ts';
import type { Recorded } from './campaign/rig.ts';

const ID = 'webhook:a';
const user = (id: string, run: string): HistoryEntry => ({
  role: 'user',
  content: [{ type: 'text', text: id }],
  at: 1,
  run,
  id,
});
const answer = (run: string): HistoryEntry => ({
  role: 'assistant',
  content: [{ type: 'text', text: 'yes' }],
  at: 2,
  run,
});
const calls = (run: string, id: string): HistoryEntry[] => [
  { role: 'assistant', content: [{ type: 'tool_use', id, name: 'count_once', input: {} }], at: 2, run },
  { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'counted' }], at: 3, run },
];
const callback = (run: string, message: string, more: Partial<Callback> = {}): Callback => ({
  at: 5,
  conversation: 'a',
  deliveryId: `${run}.0`,
  messages: [message],
  status: 'done',
  reply: 'yes',
  run,
  answer: 'ok',
  ...more,
});
const recorded = (what: Recorded['what'], more: Partial<Recorded>): Recorded => ({
  what,
  at: 1,
  pid: 1,
  conversation: ID,
  ...more,
});

/** Two messages, each with a run of its own; the first one called a tool. */
function sound(): Facts {
  return {
    conversations: [{ id: ID, chat: 'a', accepted: ['m1', 'm2'], ordered: true }],
    histories: new Map([
      [ID, [user('m1', 'r1'), ...calls('r1', 'c1'), answer('r1'), user('m2', 'r2'), answer('r2')]],
    ]),
    callbacks: [callback('r1', 'm1'), callback('r2', 'm2')],
    record: [
      recorded('claimed', { run: 'r1', epoch: 1 }),
      recorded('ran', { call: 'c1', tool: 'count_once', epoch: 1 }),
      recorded('journaled', { run: 'r1', call: 'c1', epoch: 1 }),
      recorded('committed', { run: 'r1', epoch: 1, merged: true }),
      recorded('claimed', { run: 'r2', epoch: 2 }),
      recorded('committed', { run: 'r2', epoch: 2, merged: true }),
    ],
    leftovers: [],
    lines: ['{"msg":"ready"}'],
    secrets: ['sk-secret'],
    rejected: [],
  };
}

const withHistory = (facts: Facts, history: HistoryEntry[]): Facts => ({
  ...facts,
  histories: new Map([[ID, history]]),
});
const withRecord = (facts: Facts, ...more: Recorded[]): Facts => ({
  ...facts,
  record: [...facts.record, ...more],
});
const historyOf = (facts: Facts): HistoryEntry[] => [...facts.histories.get(ID)!];

describe('the checker', () => {
  test('finds nothing where all is well', () => {
    expect(check(sound())).toEqual([]);
    const resent = {
      ...sound(),
      callbacks: [callback('r1', 'm1', { answer: 'silence' }), ...sound().callbacks],
    };
    expect(check(resent)).toEqual([]);
  });

  test.each<[string, (facts: Facts) => Facts]>([
    [
      'each accepted message once in the history',
      (facts) => withHistory(facts, historyOf(facts).slice(0, 4)),
    ],
    [
      'each accepted message once in the history',
      (facts) => withHistory(facts, [...historyOf(facts), user('m2', 'r3'), answer('r3')]),
    ],
    [
      'arrival order',
      (facts) => withHistory(facts, [...historyOf(facts).slice(4), ...historyOf(facts).slice(0, 4)]),
    ],
    [
      'calls and results are paired',
      (facts) =>
        withHistory(
          facts,
          historyOf(facts).filter((_, n) => n !== 2),
        ),
    ],
    [
      'calls and results are paired',
      (facts) =>
        withHistory(
          facts,
          historyOf(facts).filter((_, n) => n !== 1),
        ),
    ],
    ['a run ends with an answer', (facts) => withHistory(facts, historyOf(facts).slice(0, 5))],
    [
      'runs do not interleave',
      (facts) => withHistory(facts, [...historyOf(facts), ...calls('r1', 'c2'), answer('r1')]),
    ],
    ['each message answered once', (facts) => ({ ...facts, callbacks: facts.callbacks.slice(1) })],
    [
      'each message answered once',
      (facts) => ({
        ...facts,
        callbacks: [...facts.callbacks, callback('r2', 'm2', { deliveryId: 'other' })],
      }),
    ],
    [
      'each answer arrives',
      (facts) => ({ ...facts, callbacks: [callback('r1', 'm1', { answer: 'error' }), callback('r2', 'm2')] }),
    ],
    ['answers in order', (facts) => ({ ...facts, callbacks: facts.callbacks.toReversed() })],
    [
      'resends are the same',
      (facts) => ({ ...facts, callbacks: [callback('r1', 'm1', { reply: 'no' }), ...facts.callbacks] }),
    ],
    [
      'a journaled tool never runs again',
      (facts) => withRecord(facts, recorded('ran', { call: 'c1', tool: 'count_many', epoch: 2 })),
    ],
    [
      'a tool that is not idempotent runs once',
      (facts) => withRecord(facts, recorded('ran', { call: 'c1', tool: 'count_once', epoch: 1 })),
    ],
    ['no stale merge', (facts) => withRecord(facts, recorded('claimed', { run: 'r1', epoch: 7 }))],
    [
      'a run merges once',
      (facts) => withRecord(facts, recorded('committed', { run: 'r1', epoch: 1, merged: true })),
    ],
    ['all empty at the end', (facts) => ({ ...facts, leftovers: ['lk:{s1}:outbox:webhook:a'] })],
    ['no secret in a log', (facts) => ({ ...facts, lines: ['Bearer sk-secret'] })],
    ['the model gets valid histories', (facts) => ({ ...facts, rejected: ['unpaired'] })],
  ])('tells: %s', (rule, spoil) => {
    expect(check(spoil(sound())).map((violation) => violation.rule)).toContain(rule);
  });
});
