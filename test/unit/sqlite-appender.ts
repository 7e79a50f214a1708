// A process of its own for the tests of the embedded store: opens the file, appends messages without end, many in flight,
// and writes the id of each one that was acknowledged, or that was refused, in a line. Ends by being killed, or when
// told to stop at the first refusal.
import { writeSync } from 'node:fs';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { inbound } from '../contract/suites/support.ts';
import { silentLog } from '../fakes/log.ts';

const [file = '', stopWhen = ''] = process.argv.slice(2);
const storage = await createSqliteStorage({ file, dedupeHours: 48, historyTtlDays: 0, log: silentLog });
let refused = 0;

async function appendForever(worker: number): Promise<void> {
  for (let n = 0; ; n += 1) {
    const id = `w${worker}-${n}`;
    try {
      await storage.store.append(inbound(`acct:${n % 7}`, id, { text: 'x'.repeat(500) }));
      writeSync(1, `ok ${id}\n`);
    } catch (error) {
      refused += 1;
      writeSync(1, `refused ${id} ${error instanceof Error ? error.message : ''}\n`);
    }
    if (stopWhen === 'refused' && refused > 0) return;
  }
}

await Promise.all(Array.from({ length: 20 }, (_, worker) => appendForever(worker)));
process.exit(0);
