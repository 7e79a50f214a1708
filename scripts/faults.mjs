// `npm run faults [-- --seed N --rounds N]`: the fault tests over and over, in another order each round. Stops at the first
// round that fails and says how to repeat it.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ensurePrograms } from './lib/machine.mjs';
import { ensurePackages, findNode, toolEnvironment } from './lib/packages.mjs';
import { ROOT } from './lib/run.mjs';
import { fail, say, seconds } from './lib/say.mjs';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    rounds: { type: 'string', default: '10' },
  },
});
const first = Number(values.seed);
const rounds = Number(values.rounds);
if (!Number.isInteger(first) || !Number.isInteger(rounds) || rounds < 1) {
  fail('--seed and --rounds take whole numbers, --rounds 1 or more.');
}

const started = Date.now();
ensurePackages(ROOT, { dev: true });
const node = findNode(ROOT);
const env = { ...toolEnvironment(ROOT), ...ensurePrograms() };
const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');

for (let round = 0; round < rounds; round += 1) {
  const seed = first + round;
  say(`round ${round + 1} of ${rounds}, seed ${seed}`);
  const args = [vitest, 'run', '--project', 'faults', '--sequence.shuffle', `--sequence.seed=${seed}`];
  const { status, signal } = spawnSync(node, args, {
    cwd: ROOT,
    env: { ...env, FAULT_SEED: String(seed) },
    stdio: 'inherit',
  });
  if (signal) process.exit(130);
  if (status !== 0)
    fail(`FAILED in round ${round + 1}; repeat it with: npm run faults -- --seed ${seed} --rounds 1`);
}
process.stdout.write(`${rounds} rounds passed in ${seconds(started)}\n`);
