// Spending on Redis: one hash for each day and name, gone after a week.
import type { Spending } from '../../ports/spending.ts';
import { spendingKey } from './keys.ts';
import type { RedisContext } from './operations.ts';

const WEEK_MS = 7 * 86_400_000;

export function createSpending({ operate, connections }: RedisContext): Spending {
  return {
    async add(day, who, { input, output, cached }) {
      const counts = [input, output, cached, WEEK_MS];
      await Promise.all(who.map((name) => operate('spending-add', [spendingKey(day, name)], counts)));
    },

    async of(day, who) {
      const key = spendingKey(day, who);
      const [input, output, cached] = await connections.call((client) =>
        client.hmget(key, 'input', 'output', 'cached'),
      );
      return { input: Number(input ?? 0), output: Number(output ?? 0), cached: Number(cached ?? 0) };
    },
  };
}
