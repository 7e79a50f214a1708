// Breakers: stop a model that goes round in circles. They look at the run's newest calls, counted from the newest
// backwards, so that a call of another kind in between starts the count anew. Refused calls and calls with unusable
// arguments count as failed.
import type { AgentSettings } from '../../config/schema.ts';

export type BreakerSettings = AgentSettings['breakers'];

/** Handle of a call between `begin` and `end`. */
export interface BreakerRecord {
  tool: string;
  /** Tool and arguments. */
  key: string;
  state: 'running' | 'ok' | 'failed';
}

export interface Breakers {
  /** Records a call that is about to be made. `refusal`, for the model: it must not be. */
  begin(tool: string, args: string): { record: BreakerRecord; refusal?: string };
  /** Its outcome. `hint`: tell the model to answer with what it has. `end`: the run is to end. */
  end(record: BreakerRecord, ok: boolean): { hint: boolean; end: boolean };
}

export function createBreakers(settings: BreakerSettings): Breakers {
  /** A ring: `next` is where the newest record will go. */
  const ring: BreakerRecord[] = [];
  let next = 0;

  /** Records in a row, from the newest backwards, that satisfy `matches`; looks at `limit` at most. */
  function inARow(matches: (record: BreakerRecord) => boolean, limit: number): number {
    let count = 0;
    while (count < Math.min(limit, ring.length) && matches(nth(count))) count++;
    return count;
  }

  /** The n-th newest record. */
  const nth = (n: number) => ring[(next - 1 - n + 2 * settings.window) % settings.window]!;

  function push(record: BreakerRecord): void {
    ring[next] = record;
    next = (next + 1) % settings.window;
  }

  function refusal(tool: string, key: string): string | undefined {
    const { same_call, same_call_failed, tool_failed } = settings;
    const reached = (threshold: number, matches: (record: BreakerRecord) => boolean) =>
      threshold > 0 && inARow(matches, threshold) === threshold;
    if (reached(same_call_failed, (record) => record.key === key && record.state === 'failed')) {
      return `Refused: ${tool} failed ${same_call_failed} times in a row with these arguments. Take another approach.`;
    }
    if (reached(same_call, (record) => record.key === key)) {
      return `Refused: ${tool} was called ${same_call} times in a row with the same arguments. This is probably a loop; the result was returned before.`;
    }
    if (reached(tool_failed, (record) => record.tool === tool && record.state === 'failed')) {
      return `Refused: ${tool} failed ${tool_failed} times in a row. Do without it, or tell the user what is in the way.`;
    }
    return undefined;
  }

  function repeats(key: string): number {
    let count = 0;
    for (let n = 0; n < Math.min(settings.repeat_hint_window, ring.length); n++) {
      const record = nth(n);
      if (record.key === key && record.state === 'ok') count++;
    }
    return count;
  }

  return {
    begin(tool, args) {
      const key = `${tool} ${args}`;
      const refused = refusal(tool, key);
      const record: BreakerRecord = { tool, key, state: 'running' };
      push(record);
      return refused === undefined ? { record } : { record, refusal: refused };
    },
    end(record, ok) {
      record.state = ok ? 'ok' : 'failed';
      const { repeat_hint, tool_failed_end } = settings;
      if (ok) return { hint: repeat_hint > 0 && repeats(record.key) >= repeat_hint, end: false };
      const failed = (other: BreakerRecord) => other.tool === record.tool && other.state === 'failed';
      return { hint: false, end: tool_failed_end > 0 && inARow(failed, tool_failed_end) === tool_failed_end };
    },
  };
}
