// What a sender and a conversation may use in a day: looked at before a run, counted after it.
import type { SpendingLimits } from '../../config/schema.ts';
import { dayOf, spenderOf, spendingOf } from '../domain/day.ts';
import type { Usage } from '../domain/messages.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { Spending } from '../ports/spending.ts';

/** Names the sentence that tells it. */
export type LimitReached = 'usage_limit_user' | 'usage_limit_conversation';

export interface Spender {
  account: string;
  sender: string;
  conversation: string;
}

export interface DailyTokens {
  /** Undefined: there is something left. Rejects only when the storage fails. */
  limitReached(who: Spender, limits: SpendingLimits): Promise<LimitReached | undefined>;
  /** Never rejects: a count that is missing does no harm. */
  count(who: Spender, usage: Usage, limits: SpendingLimits, log: Logger): Promise<void>;
}

export function createDailyTokens(spending: Spending, clock: Clock): DailyTokens {
  const namesOf = ({ account, sender, conversation }: Spender) =>
    [spenderOf(account, sender), spendingOf(conversation)] as const;

  return {
    async limitReached(who, { tokens_per_day_user, tokens_per_day_conversation, time_zone }) {
      const day = dayOf(clock.now(), time_zone);
      const [user, conversation] = namesOf(who);
      const reached = async (name: string, tokens: number): Promise<boolean> => {
        if (tokens === 0) return false;
        const { input, output } = await spending.of(day, name);
        return input + output >= tokens;
      };
      if (await reached(user, tokens_per_day_user)) return 'usage_limit_user';
      return (await reached(conversation, tokens_per_day_conversation))
        ? 'usage_limit_conversation'
        : undefined;
    },
    async count(who, usage, { time_zone }, log) {
      try {
        await spending.add(dayOf(clock.now(), time_zone), namesOf(who), usage);
      } catch (error) {
        log.warn({ error }, "the run's tokens are missing in the daily count");
      }
    },
  };
}
