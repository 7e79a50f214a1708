// What a model's real usage says about the estimate: one factor per model, from its last reported call; and the window
// that it named when it refused a context. Kept by the process, handed to each run.

export interface Calibration {
  /** Real tokens per estimated token; 1 until something is known. */
  factor(model: string): number;
  /** True if it is time to learn again: estimating a whole request costs a pass over it. */
  due(model: string, nowMs: number): boolean;
  learn(model: string, estimated: number, actual: number, nowMs: number): void;
  /** Tokens that the model takes as far as it said so; Infinity until it does. */
  window(model: string): number;
  learnWindow(model: string, tokens: number): void;
}

/** A wild report (a vendor that counts images or hidden prompts its own way) must not upset the budget. */
const MIN_FACTOR = 0.5;
const MAX_FACTOR = 3;
const RELEARN_MS = 30_000;

export function createCalibration(): Calibration {
  const models = new Map<string, { factor: number; at: number }>();
  const windows = new Map<string, number>();
  return {
    factor: (model) => models.get(model)?.factor ?? 1,
    due: (model, nowMs) => nowMs - (models.get(model)?.at ?? -Infinity) >= RELEARN_MS,
    learn(model, estimated, actual, nowMs) {
      if (estimated <= 0) return;
      const factor = Math.min(MAX_FACTOR, Math.max(MIN_FACTOR, actual / estimated));
      models.set(model, { factor, at: nowMs });
    },
    window: (model) => windows.get(model) ?? Infinity,
    learnWindow(model, tokens) {
      windows.set(model, tokens);
    },
  };
}
