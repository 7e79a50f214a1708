// Spending: tokens by day and by whom, for limits and /usage. A count that comes a little late or, after a crash between
// a run's merge and its count, not at all does no harm; histories and totals are the store's. Kept for a week.
import type { Usage } from '../domain/messages.ts';

export interface Spending {
  /** `day`: YYYY-MM-DD. `who`: any names; each gets all of the usage. Atomic for each name. */
  add(day: string, who: readonly string[], usage: Usage): Promise<void>;
  /** Zeros for a name that spent nothing. */
  of(day: string, who: string): Promise<Usage>;
}
