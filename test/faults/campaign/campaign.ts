// Rounds, one after the other on one rig; after a violation the next round starts on a fresh one.
import { makePlan, type Backend } from './plan.ts';
import { startRig, type Rig, type RigOptions } from './rig.ts';
import { runRound, type RoundResult } from './round.ts';

export interface CampaignOptions extends RigOptions {
  backend: Backend;
  /** Of the first round; each one after has the next. */
  seed: number;
  rounds: number;
  /** No round begins after this. */
  untilMs?: number;
  onRound: (result: RoundResult) => void;
  signal?: AbortSignal;
}

export async function runCampaign(options: CampaignOptions): Promise<void> {
  let rig: Rig | undefined;
  try {
    for (let n = 0; n < options.rounds; n++) {
      if (options.signal?.aborted || Date.now() > (options.untilMs ?? Infinity)) return;
      rig ??= await startRig(options);
      const result = await runRound(rig, makePlan(options.backend, options.seed + n));
      options.onRound(result);
      if (result.violations.length > 0) {
        await rig.close();
        rig = undefined;
      }
    }
  } finally {
    await rig?.close();
  }
}
