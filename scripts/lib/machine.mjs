// Programs that tests need and npm doesn't have: found, or installed with the machine's own package manager when we may.
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { fail, say, seconds } from './say.mjs';

/** Of several package names, the first that the manager knows is installed. */
const PROGRAMS = [
  {
    name: 'redis-server',
    candidates: ['redis-server'],
    packages: { apt: 'redis-server', apk: 'redis', brew: 'redis' },
    elsewhere:
      'Redis 7 or newer (https://redis.io/docs/latest/operate/oss_and_stack/install/), with redis-server in the PATH',
  },
  {
    name: 'Chromium',
    variable: 'CHROMIUM_PATH',
    // The headless build comes first: the same engine without windows, which takes half the time for a page.
    candidates: [
      'chromium-headless-shell',
      'chromium',
      'chromium-browser',
      'google-chrome',
      'google-chrome-stable',
      '/Applications/Chromium.app/Contents/MacOS/Chromium',
      '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
    ],
    packages: { apt: ['chromium-headless-shell', 'chromium'], apk: 'chromium', brew: '--cask google-chrome' },
    elsewhere: 'Chromium or Google Chrome, in the PATH or named by CHROMIUM_PATH',
  },
];

const MANAGERS = [
  // Debian's lists may be older than its mirror: update once, before the first install.
  {
    name: 'apt',
    program: 'apt-get',
    before: ['update', '-qq'],
    install: ['install', '-y', '-qq', '--no-install-recommends'],
  },
  { name: 'apk', program: 'apk', install: ['add', '--no-cache'] },
  { name: 'brew', program: 'brew', install: ['install'], user: true },
];

function executable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Path of the first candidate there is. */
function findProgram(candidates, path = process.env.PATH ?? '') {
  for (const candidate of candidates) {
    const places = isAbsolute(candidate)
      ? [candidate]
      : path
          .split(delimiter)
          .filter(Boolean)
          .map((folder) => join(folder, candidate));
    const found = places.find(executable);
    if (found) return found;
  }
  return undefined;
}

function locate({ variable, candidates }) {
  const named = variable && process.env[variable];
  return findProgram(named ? [named] : candidates);
}

/** Environment variables that tell the tests where the programs are. Ends the process if some are missing for good. */
export function ensurePrograms() {
  const missing = PROGRAMS.filter((program) => !locate(program));
  if (missing.length > 0) install(missing);
  const found = {};
  for (const program of PROGRAMS) {
    const path = locate(program);
    if (!path) fail(`${program.name} is missing. Install ${program.elsewhere}, then run npm test again.`);
    if (program.variable) found[program.variable] = path;
  }
  return found;
}

function install(missing) {
  const manager = MANAGERS.find(({ program }) => findProgram([program]));
  const names = missing.map(({ name }) => name).join(' and ');
  if (!manager) {
    fail(
      `${names} missing, and no apt-get, apk or brew here. Install ${missing.map((one) => one.elsewhere).join('; and ')}.`,
    );
  }
  // Each step is a list of commands that do the same: the first that succeeds ends it.
  const steps = [
    ...(manager.before ? [[[manager.program, ...manager.before]]] : []),
    ...missing.map(({ packages }) =>
      [packages[manager.name]]
        .flat()
        .map((name) => [manager.program].concat(manager.install, name.split(' '))),
    ),
  ];
  const prefix = manager.user ? [] : rootPrefix();
  if (!prefix) {
    const lines = steps.map((commands) => `  sudo ${commands.at(-1).join(' ')}`).join('\n');
    fail(`${names} missing, and this user may not install packages. Run\n${lines}\nthen npm test again.`);
  }
  say(`Installing ${names} with ${manager.program} …`);
  const started = Date.now();
  for (const commands of steps) {
    let status;
    for (const command of commands) {
      status = run([...prefix, ...command]);
      if (status === 0) break;
    }
    if (status !== 0) {
      fail(`"${commands.at(-1).join(' ')}" failed with exit code ${status}; its message is above.`);
    }
  }
  say(`Installed in ${seconds(started)}.`);
}

function run([program, ...args]) {
  return spawnSync(program, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  }).status;
}

/** [] for root, sudo if it asks for no password, undefined if neither. */
function rootPrefix() {
  if (process.getuid?.() === 0) return [];
  if (!findProgram(['sudo'])) return undefined;
  return spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0
    ? ['sudo', '-n', '--preserve-env=DEBIAN_FRONTEND']
    : undefined;
}
