// The embedded Spending: one row for each day and name.
import type { Usage } from '../../domain/messages.ts';
import type { Spending } from '../../ports/spending.ts';
import type { Database } from './database.ts';

export function createSpending(db: Database): Spending {
  const add = db.prepare(
    `INSERT INTO spending (day, who, input, output, cached) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET input = input + excluded.input, output = output + excluded.output,
         cached = cached + excluded.cached`,
  );
  const expire = db.prepare("DELETE FROM spending WHERE day < date(?, '-7 days')");
  const select = db.prepare<Usage>('SELECT input, output, cached FROM spending WHERE day = ? AND who = ?');

  return {
    async add(day, who, { input, output, cached }) {
      await db.write(
        () => {
          for (const name of who) add.run(day, name, input, output, cached);
          expire.run(day);
        },
        { durable: false },
      );
    },

    of(day, who) {
      return db.read(() => ({ input: 0, output: 0, cached: 0, ...select.get(day, who) }));
    },
  };
}
