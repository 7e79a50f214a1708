// A seeded generator of pseudo-random numbers: the same seed gives the same plan.

export interface Random {
  /** 0 … 1, 1 excluded. */
  next(): number;
  /** Whole numbers from low to high, both included. */
  between(low: number, high: number): number;
  pick<T>(values: readonly T[]): T;
  chance(probability: number): boolean;
}

/** Mulberry32: one 32-bit word of state, good enough to choose faults by. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  const between = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    pick: (values) => values[between(0, values.length - 1)]!,
    chance: (probability) => next() < probability,
  };
}
