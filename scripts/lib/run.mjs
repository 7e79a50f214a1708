// Runs one of our TypeScript programs on Node 24, whatever Node this is: in this process if it can, else in a child that
// gets the same arguments, streams and signals.
import { spawn } from 'node:child_process';
import module from 'node:module';
import { constants } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ensurePackages, findNode } from './packages.mjs';

export const ROOT = join(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '..', '..');

// Compiled code is kept between starts. `npm ci` empties it together with the packages it belongs to.
const COMPILE_CACHE = join(ROOT, 'node_modules', '.cache', 'compile');

export async function runProgram(entry, args, { dev = false } = {}) {
  ensurePackages(ROOT, { dev });
  const node = findNode(ROOT);
  const file = join(ROOT, entry);
  if (node === process.execPath) {
    module.enableCompileCache(COMPILE_CACHE);
    process.argv = [process.execPath, file, ...args];
    await import(pathToFileURL(file).href);
    return;
  }
  runChild(node, [...process.execArgv, file, ...args]);
}

function runChild(node, args) {
  const child = spawn(node, args, {
    stdio: 'inherit',
    env: { ...process.env, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? COMPILE_CACHE },
  });
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT']) {
    process.on(signal, () => {
      // A terminal sends Ctrl-C to the child as well; a second one would cut its shutdown short.
      if (signal === 'SIGINT' && process.stdin.isTTY) return;
      child.kill(signal);
    });
  }
  child.on('error', (error) => {
    process.stderr.write(`lanekeeper: ${node} could not be started: ${error.message}\n`);
    process.exitCode = 1;
  });
  child.on('exit', (code, signal) => {
    process.exit(code ?? 128 + (constants.signals[signal] ?? 0));
  });
}
