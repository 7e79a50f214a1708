// `npm test`: installs what is missing, then format, lint, types and dead code, then every test suite. Any Node from 20 on.
// Everything runs even after a failure; the last line counts, and the exit code is 0 only if nothing failed.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ensurePrograms } from './lib/machine.mjs';
import { ensurePackages, findNode, toolEnvironment } from './lib/packages.mjs';
import { ROOT } from './lib/run.mjs';
import { say, seconds } from './lib/say.mjs';

const started = Date.now();
ensurePackages(ROOT, { dev: true });
const node = findNode(ROOT);
const env = { ...toolEnvironment(ROOT), ...ensurePrograms() };
const total = { passed: 0, failed: 0, skipped: 0 };
const failures = [];
const failedTests = [];

function run(label, command, args, options = {}) {
  const since = Date.now();
  const { status, signal } = spawnSync(command, args, { cwd: ROOT, env, stdio: 'inherit', ...options });
  if (signal === 'SIGINT') process.exit(130);
  say(`${status === 0 ? 'ok' : 'FAILED'}  ${label} (${seconds(since)})`);
  if (status !== 0) failures.push(label);
  return status === 0;
}

// The checks are those of `npm run check`, one by one, so that each is told even if an earlier one failed.
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
for (const command of scripts.check.split(' && ')) {
  total[run(command, command, [], { shell: true }) ? 'passed' : 'failed'] += 1;
}

const results = mkdtempSync(join(tmpdir(), 'lanekeeper-test-'));
for (const project of projects()) test(project);
rmSync(results, { recursive: true, force: true });

// Said again at the end, where it is seen.
for (const { name, message } of failedTests) say(`${name}\n${message}\n`);
if (failures.length > 0) say(`FAILED: ${failures.join('; ')}`);
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
say(`took ${seconds(started)}`);
process.stdout.write(`${total.passed} passed, ${total.failed} failed${skipped}\n`);
process.exitCode = total.failed === 0 && failures.length === 0 ? 0 : 1;

function test(project) {
  const file = join(results, `${project}.json`);
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`];
  const ok = run(`${project} tests`, node, [vitest, 'run', '--project', project, ...reporters]);
  const counted = count(file);
  total.passed += counted.passed;
  total.skipped += counted.skipped;
  failedTests.push(...counted.failedTests);
  // A suite that could not even be loaded has no test that failed.
  total.failed += ok ? 0 : Math.max(1, counted.failed);
}

/**
 * Folders of test/ that hold tests; each is a vitest project of that name. Those of the benchmarks take long, and have a command
 * of their own.
 */
function projects() {
  return readdirSync(join(ROOT, 'test'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'bench')
    .map((entry) => entry.name)
    .filter((name) =>
      readdirSync(join(ROOT, 'test', name), { recursive: true }).some((file) => file.endsWith('.test.ts')),
    )
    .sort((a, b) => order(a) - order(b));
}

/** Quick ones first. */
function order(name) {
  const index = ['unit', 'contract', 'e2e', 'browser', 'faults'].indexOf(name);
  return index === -1 ? 99 : index;
}

function count(file) {
  try {
    const result = JSON.parse(readFileSync(file, 'utf8'));
    return {
      passed: result.numPassedTests,
      failed: result.numFailedTests,
      skipped: result.numPendingTests + result.numTodoTests,
      failedTests: result.testResults.flatMap(failuresOf),
    };
  } catch {
    return { passed: 0, failed: 0, skipped: 0, failedTests: [] };
  }
}

function failuresOf({ name: path, message, assertionResults }) {
  const file = relative(ROOT, path);
  const failed = assertionResults.filter(({ status }) => status === 'failed');
  return failed.length === 0 && message
    ? [{ name: file, message }]
    : failed.map(({ fullName, failureMessages }) => ({
        name: `${file}: ${fullName}`,
        message: failureMessages.join('\n'),
      }));
}
