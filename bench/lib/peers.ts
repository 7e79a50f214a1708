// Packages that only a benchmark needs: each in a package with a lockfile of its own beside it, installed once, so that
// neither the server nor its development carries them.
import { access } from 'node:fs/promises';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** True if `name` is there, or could be installed. */
export async function installPeers(dir: string, name: string): Promise<boolean> {
  try {
    await access(join(dir, 'node_modules', name));
    return true;
  } catch {
    process.stderr.write(`Installing the packages of ${dir} (once) …\n`);
  }
  const args = ['ci', '--prefix', dir, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const child = spawn('npm', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(child, 'exit');
  return code === 0;
}
