// The five breakers and their thresholds, over a run's newest calls.
import { describe, expect, it } from 'vitest';
import { createBreakers } from '../../src/agent/breakers.ts';
import { fail, success } from '../../src/ports/tool.ts';
import {
  brief,
  messagesOf,
  play,
  settingsOf,
  tool,
  type DeepPartial,
  type ScriptedCall,
  type Step,
} from '../fakes/agent.ts';
import type { AgentSettings } from '../../config/schema.ts';

const good = () => tool('good', async () => success('fine'));
const bad = () => tool('bad', async () => fail('no'));
/** One call a turn. */
const turns = (...calls: ScriptedCall[]): Step[] => [...calls.map((call) => ({ calls: [call] })), 'ok'];
const times = (n: number, make: (n: number) => ScriptedCall) =>
  Array.from({ length: n }, (_, index) => make(index));

/** What became of each call. */
async function outcomes(script: Step[], settings: DeepPartial<AgentSettings> = {}) {
  const tools = [good(), bad()];
  const { result, model } = await play({ script, tools, settings });
  const lines = brief(messagesOf(result)).filter((line) => /^(?:result|error) /u.test(line));
  const words = lines.map((line) => {
    if (line === 'result fine') return 'ok';
    if (line === 'error no') return 'failed';
    if (line.includes('probably a loop')) return 'loop';
    if (line.includes('Take another approach')) return 'another approach';
    if (line.includes('Do without it')) return 'do without';
    if (line.startsWith('error Skipped')) return 'skipped';
    return line.includes('arguments') ? 'bad arguments' : line;
  });
  return { words, result, model };
}

describe('breakers', () => {
  it.each<[string, Step[], string[]]>([
    [
      'the same call 5 times in a row: the next is refused',
      turns(...times(7, () => ['good', { a: 1 }])),
      ['ok', 'ok', 'ok', 'ok', 'ok', 'loop', 'loop'],
    ],
    [
      'other arguments in between start the count anew',
      turns(
        ...times(4, () => ['good', { a: 1 }] as ScriptedCall),
        ['good', { a: 2 }],
        ...times(5, () => ['good', { a: 1 }] as ScriptedCall),
      ),
      Array<string>(10).fill('ok'),
    ],
    [
      'the same call failed 3 times in a row: the next is refused',
      turns(...times(5, () => ['bad', { a: 1 }])),
      ['failed', 'failed', 'failed', 'another approach', 'another approach'],
    ],
    [
      'a success in between starts the count anew',
      turns(...times(3, () => ['bad', {}] as ScriptedCall), ['good'], ['bad', {}]),
      ['failed', 'failed', 'failed', 'ok', 'failed'],
    ],
    [
      'the same tool failed 6 times in a row: the next is refused; 8: the run ends',
      turns(...times(20, (n) => ['bad', { n }])),
      [...Array<string>(6).fill('failed'), 'do without', 'do without'],
    ],
    [
      'refused calls count, so that the same arguments end the run as well',
      turns(...times(20, () => ['bad', { a: 1 }])),
      [...Array<string>(3).fill('failed'), ...Array<string>(5).fill('another approach')],
    ],
    [
      'unusable arguments count',
      turns(...times(20, () => ['good', '{"a":'])),
      Array<string>(8).fill('bad arguments'),
    ],
    [
      'tools that do not exist count',
      turns(...times(20, () => ['nobody'])),
      Array<string>(8).fill('error There is no tool "nobody". Tools: bad, good.'),
    ],
    [
      'in one batch: what is left when the run ends is skipped, each with its result',
      [{ calls: times(10, (n) => ['bad', { n }]) }, 'ok'],
      [...Array<string>(6).fill('failed'), 'do without', 'do without', 'skipped', 'skipped'],
    ],
  ])('%s', async (_name, script, wanted) => {
    expect((await outcomes(script)).words).toEqual(wanted);
  });

  it('end the run with an apology that the history keeps', async () => {
    const { result } = await outcomes(turns(...times(20, (n) => ['bad', { n }])));
    expect(result).toMatchObject({ status: 'failed', stop: 'error', turns: 8 });
    expect(result.reply).toContain('the tool "bad" kept failing');
    expect(brief(messagesOf(result)).at(-1)).toBe(`assistant: ${result.reply}`);
  });

  it.each<[string, DeepPartial<AgentSettings['breakers']>, Step[], string[]]>([
    ['same_call', { same_call: 2 }, turns(...times(3, () => ['good'])), ['ok', 'ok', 'loop']],
    ['same_call_failed', { same_call_failed: 1 }, turns(['bad'], ['bad']), ['failed', 'another approach']],
    [
      'tool_failed',
      { tool_failed: 2 },
      turns(...times(3, (n) => ['bad', { n }])),
      ['failed', 'failed', 'do without'],
    ],
    [
      'tool_failed_end',
      { tool_failed_end: 2 },
      turns(...times(5, (n) => ['bad', { n }])),
      ['failed', 'failed'],
    ],
    [
      'all off',
      { same_call: 0, same_call_failed: 0, tool_failed: 0, tool_failed_end: 0 },
      turns(...times(12, () => ['bad'])),
      Array<string>(12).fill('failed'),
    ],
    [
      'a window of 2 sees no more than 2',
      { window: 2, same_call: 3, same_call_failed: 3, tool_failed: 3, tool_failed_end: 3 },
      turns(...times(6, () => ['bad'])),
      Array<string>(6).fill('failed'),
    ],
  ])('%s is a setting', async (_name, breakers, script, wanted) => {
    expect((await outcomes(script, { breakers })).words).toEqual(wanted);
  });

  it('hint after 3 successes of the same call in the last 10, for this run only', async () => {
    const between = (n: number): ScriptedCall[] => times(n, (index) => ['good', { other: index }]);
    const same: ScriptedCall = ['good', { same: true }];
    const hinted = async (script: Step[]) => {
      const { model, result } = await outcomes(script);
      expect(JSON.stringify(result.entries)).not.toContain('Answer the user now');
      return model.requests.findIndex(({ messages }) =>
        JSON.stringify(messages).includes('Answer the user now'),
      );
    };
    expect(await hinted(turns(same, ...between(3), same, ...between(3), same))).toBe(9);
    expect(await hinted(turns(same, ...between(5), same, ...between(5), same))).toBe(-1);
  });

  it('see calls of one parallel batch that are still running', () => {
    const breakers = createBreakers(settingsOf().breakers);
    const refusals = times(7, () => ['t']).map(() => breakers.begin('t', '{}').refusal);
    expect(refusals.map((refusal) => refusal !== undefined)).toEqual([
      false,
      false,
      false,
      false,
      false,
      true,
      true,
    ]);
  });
});
