// `npm run bench`: all benchmarks but the long ones, or those named: `npm run bench -- lanes drain`.
//   --quick   seconds instead of minutes, for tests; the figures mean little
//   --write   puts the server's table into README.md and README.zh-CN.md
import { parseArgs } from 'node:util';
import { benchDrain } from './drain.ts';
import { benchEstimate } from './estimate/index.ts';
import { benchLanes } from './lanes.ts';
import { publish, type Report } from './lib/report.ts';
import { benchLoop } from './loop/index.ts';
import { benchServer } from './server.ts';
import { benchStore } from './store.ts';

type Benchmark = (options: { quick: boolean; write: boolean }) => Promise<Report>;

const BENCHMARKS: Record<string, Benchmark> = {
  lanes: benchLanes,
  loop: benchLoop,
  estimate: benchEstimate,
  store: benchStore,
  server: benchServer,
  drain: benchDrain,
};
/** Takes long: only by name. */
const BY_NAME = new Set(['drain']);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
});
const names =
  positionals.length === 0 ? Object.keys(BENCHMARKS).filter((name) => !BY_NAME.has(name)) : positionals;
const unknown = names.find((name) => !Object.hasOwn(BENCHMARKS, name));
if (unknown !== undefined) {
  process.stderr.write(`No benchmark "${unknown}". There are: ${Object.keys(BENCHMARKS).join(', ')}\n`);
  process.exit(2);
}
for (const name of names) {
  const report = await BENCHMARKS[name]?.(values);
  if (report !== undefined) await publish(report);
}
