// Which packages are missing, and installing them. Plain JavaScript for Node 20 and newer, without dependencies: it runs
// before anything is installed.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fail, say, seconds } from './say.mjs';

/** The first Node that runs our TypeScript as it is and has node:sqlite without a flag in a long-term release. */
const NODE_MAJOR = 24;

/** @returns {Record<string, {version?: string, dev?: boolean, optional?: boolean, devOptional?: boolean}> | undefined} */
function readLock(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch {
    return undefined;
  }
}

/**
 * Names of packages that the lockfile wants and node_modules lacks. npm writes node_modules/.package-lock.json last, as
 * the list of what is really there; comparing the two files costs a few milliseconds and no network.
 */
function missingPackages(root, { dev }) {
  const wanted = readLock(join(root, 'package-lock.json'));
  if (!wanted)
    fail('package-lock.json is missing or damaged: get it back with `git checkout package-lock.json`.');
  const installed = readLock(join(root, 'node_modules', '.package-lock.json')) ?? {};
  return Object.entries(wanted)
    .filter(([path, entry]) => path !== '' && (dev || !entry.dev) && !entry.optional && !entry.devOptional)
    .filter(([path, entry]) => installed[path]?.version !== entry.version)
    .map(([path]) => path.replace('node_modules/', ''));
}

/** True if development packages are there: then an update keeps them. */
function hasDevPackages(root) {
  const installed = readLock(join(root, 'node_modules', '.package-lock.json')) ?? {};
  return Object.values(installed).some((entry) => entry.dev);
}

const bundledNode = (root) =>
  join(root, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');

const ownNodeIsEnough = () => Number(process.versions.node.split('.')[0]) >= NODE_MAJOR;

/** The `node` package is built for glibc; on Alpine it would stand before a Node that works. */
const isMusl = () => process.platform === 'linux' && !process.report.getReport().header.glibcVersionRuntime;

/** Installs what the lockfile says unless it is there. `dev`: the tools for tests and checks as well. */
export function ensurePackages(root, { dev }) {
  const missing = missingPackages(root, { dev });
  const nodeMissing = !ownNodeIsEnough() && !existsSync(bundledNode(root));
  if (missing.length === 0 && !nodeMissing) return;

  const all = dev || hasDevPackages(root);
  say(
    `Installing ${all ? 'all packages' : 'packages'} from package-lock.json (${reason(root, missing, nodeMissing)}) …`,
  );
  const started = Date.now();
  const args = [
    'ci',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
    ...(all ? ['--include=dev'] : ['--omit=dev']),
  ];
  const { status, error } = spawnSync('npm', args, {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    shell: process.platform === 'win32',
    env: { ...process.env, NODE_ENV: '', PATH: pathWithoutBin(root) },
  });
  if (error) fail(`npm could not be started (${error.message}). Install npm 10 or newer and try again.`);
  if (status !== 0)
    fail(`npm ci failed with exit code ${status}; its message is above. Check the network, then try again.`);
  if (isMusl()) rmSync(join(root, 'node_modules', '.bin', 'node'), { force: true });
  removeHeaders(root);
  say(`Installed in ${seconds(started)}.`);
}

/** The `node` package brings C++ headers (67 MB) that nothing here compiles against. */
function removeHeaders(root) {
  const packages = join(root, 'node_modules', 'node', 'node_modules');
  if (!existsSync(packages)) return;
  for (const entry of readdirSync(packages, { withFileTypes: true })) {
    if (entry.isDirectory()) rmSync(join(packages, entry.name, 'include'), { recursive: true, force: true });
  }
}

function reason(root, missing, nodeMissing) {
  if (!existsSync(join(root, 'node_modules'))) return 'first run';
  if (missing.length === 0) return nodeMissing ? `Node ${NODE_MAJOR}` : '';
  return missing.length <= 3 ? missing.join(', ') : `${missing.length} are missing or have another version`;
}

/**
 * npm puts node_modules/.bin first. `npm ci` empties that folder while it runs, the Node in it included, so it must run
 * on the machine's own.
 */
function pathWithoutBin(root) {
  const bin = join(root, 'node_modules', '.bin');
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.filter((folder) => folder !== bin && !folder.includes('node-gyp-bin')).join(delimiter);
}

/** The Node to run TypeScript with: this one, or the packaged one. */
export function findNode(root) {
  if (ownNodeIsEnough()) return process.execPath;
  const bundled = bundledNode(root);
  if (existsSync(bundled) && !isMusl()) return bundled;
  return fail(
    `Node ${NODE_MAJOR} is needed, this is ${process.version}, and the npm package "node" could not be installed here ` +
      `(no build for ${process.platform} ${process.arch}${isMusl() ? ' with musl' : ''}, or npm's ignore-scripts is on). ` +
      `Install Node ${NODE_MAJOR} from https://nodejs.org/ and try again.`,
  );
}

/** Environment for child processes: what is in node_modules/.bin is found first. */
export function toolEnvironment(root) {
  const bin = join(root, 'node_modules', '.bin');
  return { ...process.env, PATH: [bin, pathWithoutBin(root)].join(delimiter) };
}
