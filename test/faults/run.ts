// `npm run faults -- --seed N --rounds N [--backend redis|sqlite|both] [--minutes M] [--log file]`: the fault campaign.
// `--summarize file,…` prints the table of logs instead.
import { appendFileSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { runCampaign } from './campaign/campaign.ts';
import type { Backend } from './campaign/plan.ts';
import { summarize, type LoggedRound } from './campaign/summary.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    rounds: { type: 'string', default: '10' },
    backend: { type: 'string', default: 'both' },
    minutes: { type: 'string' },
    log: { type: 'string' },
    mutant: { type: 'string' },
    summarize: { type: 'string' },
  },
});
const print = (text: string) => void process.stdout.write(`${text}\n`);

function fail(text: string): never {
  process.stderr.write(`${text}\n`);
  process.exit(2);
}

if (values.summarize !== undefined) {
  const lines = values.summarize.split(',').flatMap((file) => readFileSync(file, 'utf8').trim().split('\n'));
  print(summarize(lines.filter((line) => line !== '').map((line) => JSON.parse(line) as LoggedRound)));
  process.exit(0);
}

const seed = Number(values.seed);
const rounds = Number(values.rounds);
const minutes = values.minutes === undefined ? undefined : Number(values.minutes);
if (!Number.isInteger(seed) || !Number.isInteger(rounds) || rounds < 1)
  fail('--seed and --rounds take whole numbers, --rounds 1 or more.');
if (minutes !== undefined && !(minutes > 0)) fail('--minutes takes a number above 0.');
if (!['redis', 'sqlite', 'both'].includes(values.backend)) fail('--backend takes redis, sqlite or both.');
const backends: Backend[] = values.backend === 'both' ? ['redis', 'sqlite'] : [values.backend as Backend];

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
const startedAt = Date.now();
const results: LoggedRound[] = [];

await Promise.all(
  backends.map((backend) =>
    runCampaign({
      backend,
      seed,
      rounds,
      signal: stop.signal,
      ...(minutes === undefined ? {} : { untilMs: startedAt + minutes * 60_000 }),
      ...(values.mutant === undefined ? {} : { mutant: values.mutant }),
      onRound({ timeline, ...result }) {
        results.push({ backend, ...result });
        if (values.log !== undefined)
          appendFileSync(values.log, `${JSON.stringify({ backend, ...result })}\n`);
        const { violations, faults, messages, ms } = result;
        const verdict = violations.length === 0 ? 'ok' : 'FAILED';
        print(
          `${verdict}  ${backend} seed ${result.seed}: ${messages} messages in ${ms} ms; ${faults.join(', ')}`,
        );
        for (const { rule, detail, conversation = '' } of violations)
          print(`    ${rule}: ${detail} ${conversation}`);
        if (violations.length === 0) return;
        print(timeline.join('\n'));
        print(`repeat it with: npm run faults -- --backend ${backend} --seed ${result.seed} --rounds 1`);
      },
    }),
  ),
);

print(`\n${summarize(results)}`);
print(`in ${Math.round((Date.now() - startedAt) / 1000)} s`);
process.exitCode = results.some(({ violations }) => violations.length > 0) ? 1 : 0;
