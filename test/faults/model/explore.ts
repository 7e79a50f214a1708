// A breadth-first explorer: every state that a protocol can get into, the invariants in each, and a way out of each.

export interface Protocol<S> {
  initial: S;
  /** Every step that may be taken, with its name. States are plain JSON and never changed in place. */
  steps(state: S): { name: string; to: S }[];
  /** What is wrong with the state; undefined if nothing is. */
  broken(state: S): string | undefined;
  /** All that was asked for is done. */
  done(state: S): boolean;
}

export interface Exploration {
  states: number;
  steps: number;
  /** The shortest way to a state that is wrong. */
  counterexample?: { reason: string; path: string[] };
}

/** Stops at the first state that is wrong, or from which no way leads to one that is done. */
export function explore<S>(protocol: Protocol<S>, maxStates = 3_000_000): Exploration {
  const index = new Map<string, number>();
  const states: S[] = [];
  const cameFrom: { from: number; name: string }[] = [];
  const edges: number[] = [];

  const add = (state: S, from: number, name: string): number => {
    const key = JSON.stringify(state);
    const known = index.get(key);
    if (known !== undefined) return known;
    if (states.length >= maxStates) throw new Error(`more than ${maxStates} states`);
    index.set(key, states.length);
    cameFrom.push({ from, name });
    return states.push(state) - 1;
  };
  const pathTo = (at: number): string[] => {
    const path: string[] = [];
    for (let n = at; n > 0; n = cameFrom[n]!.from) path.push(cameFrom[n]!.name);
    return path.toReversed();
  };
  const result = (at?: number, reason = ''): Exploration => ({
    states: states.length,
    steps: edges.length / 2,
    ...(at === undefined ? {} : { counterexample: { reason, path: pathTo(at) } }),
  });

  add(protocol.initial, -1, '');
  for (let n = 0; n < states.length; n++) {
    const reason = protocol.broken(states[n]!);
    if (reason !== undefined) return result(n, reason);
    for (const { name, to } of protocol.steps(states[n]!)) edges.push(n, add(to, n, name));
  }
  const stuck = firstStuck(states, edges, protocol.done);
  return stuck === undefined ? result() : result(stuck, 'no way leads on to the end');
}

/** The first state from which none that is done can be reached. */
function firstStuck<S>(
  states: readonly S[],
  edges: readonly number[],
  done: (state: S) => boolean,
): number | undefined {
  const before: number[][] = states.map(() => []);
  for (let n = 0; n < edges.length; n += 2) before[edges[n + 1]!]!.push(edges[n]!);
  const good = states.map(done);
  const queue = [...good.keys()].filter((n) => good[n]);
  for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
    for (const from of before[at]!) {
      if (good[from]) continue;
      good[from] = true;
      queue.push(from);
    }
  }
  const stuck = good.indexOf(false);
  return stuck === -1 ? undefined : stuck;
}
