// `npm run faults [-- --seed N --rounds N --backend redis|sqlite|both --minutes M]`: the fault campaign of test/faults.
import { ensurePrograms } from './lib/machine.mjs';
import { ensurePackages } from './lib/packages.mjs';
import { ROOT, runProgram } from './lib/run.mjs';

ensurePackages(ROOT, { dev: true });
Object.assign(process.env, ensurePrograms());
await runProgram('test/faults/run.ts', process.argv.slice(2), { dev: true });
