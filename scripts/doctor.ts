// `npm run doctor [-- --live]`: prints what src/doctor finds, one line each; exit code 1 if something is wrong.
import { parseArgs } from 'node:util';
import { diagnose } from '../src/doctor/index.ts';

const { values } = parseArgs({ options: { live: { type: 'boolean', default: false } } });
const LABEL = { ok: 'ok   ', note: 'note ', wrong: 'WRONG' };

process.exitCode = 0;
for await (const { state, part, text } of diagnose({ live: values.live })) {
  process.stdout.write(`${LABEL[state]}  ${part}: ${text}\n`);
  if (state === 'wrong') process.exitCode = 1;
}
