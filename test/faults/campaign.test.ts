// A short piece of the fault campaign with fixed seeds, on both storages at once; and a check that it finds what is broken.
import { describe, expect, test } from 'vitest';
import { runCampaign } from './campaign/campaign.ts';
import { makePlan, SINGLE, type Backend, type Plan } from './campaign/plan.ts';
import { startRig } from './campaign/rig.ts';
import { runRound, type RoundResult } from './campaign/round.ts';

const ROUNDS: Record<Backend, number> = { redis: 9, sqlite: 6 };
const SEED = 4_200;

describe('fault campaign', () => {
  test('the same seed makes the same plan', () => {
    expect(makePlan('redis', 7)).toEqual(makePlan('redis', 7));
    expect(makePlan('redis', 7)).not.toEqual(makePlan('redis', 8));
  });

  test('keeps every promise, on Redis and embedded', async () => {
    const results: Record<Backend, RoundResult[]> = { redis: [], sqlite: [] };
    await Promise.all(
      (['redis', 'sqlite'] as const).map((backend) =>
        runCampaign({
          backend,
          seed: SEED,
          rounds: ROUNDS[backend],
          logLevel: 'debug',
          onRound: (result) => results[backend].push(result),
        }),
      ),
    );
    for (const backend of ['redis', 'sqlite'] as const) {
      const broken = results[backend].filter(({ violations }) => violations.length > 0);
      const told = broken.map(({ seed, violations, timeline }) => ({ backend, seed, violations, timeline }));
      expect(told).toEqual([]);
      expect(results[backend]).toHaveLength(ROUNDS[backend]);
      // A campaign in which nothing happens shows nothing.
      expect(results[backend].flatMap(({ faults }) => faults).length).toBeGreaterThan(ROUNDS[backend] / 2);
    }
  });

  test('notices a journal that is not kept: a tool runs twice', async () => {
    const message = {
      id: 's1-c1-m1',
      text: 's1-c1-m1 use:count_once{"tag":"a"}',
      model: [],
      callbacks: [],
      thinkMs: 0,
    };
    const plan: Plan = {
      seed: 1,
      backend: 'sqlite',
      conversations: [{ id: 's1-c1', group: false, pace: 'fast', messages: [message] }],
      faults: [
        {
          fault: { kind: 'kill_at', target: SINGLE, point: 'after_tool', nth: 1 },
          when: { counter: 'asked', reaches: 1 },
          afterMs: 0,
        },
      ],
    };
    plan.conversations[0]!.messages[0]!.thinkMs = 300;
    const rig = await startRig({ backend: 'sqlite', mutant: 'forgetful_journal' });
    try {
      const { violations } = await runRound(rig, plan);
      expect(violations.map(({ rule }) => rule)).toContain('a tool that is not idempotent runs once');
    } finally {
      await rig.close();
    }
  });
});
