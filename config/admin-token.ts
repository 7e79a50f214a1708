// Start-up: the admin token. One that isn't configured is made once, kept where only this user can read it, and
// printed once to the terminal: never to the log, which others may collect.
import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from './schema.ts';

const FILE = 'admin-token';

/** Rejects when the data directory can't be written. `print` gets the one line for the terminal. */
export async function ensureAdminToken(
  { server, storage }: Pick<Config, 'server' | 'storage'>,
  print: (line: string) => void = (line) => process.stderr.write(`${line}\n`),
): Promise<string> {
  if (server.admin_token) return server.admin_token;
  const file = join(storage.data_dir, FILE);
  await mkdir(storage.data_dir, { recursive: true, mode: 0o700 });
  const token = randomBytes(24).toString('base64url');
  if (await create(file, `${token}\n`)) {
    print(`Admin token, shown this once (kept in ${file}): ${token}`);
    return token;
  }
  const kept = (await readFile(file, 'utf8')).trim();
  if (kept) return kept;
  throw new Error(`${file} is empty: delete it, and the next start makes a new admin token.`);
}

/** False if the file exists: two processes that start together agree on the first one's token. */
async function create(file: string, text: string): Promise<boolean> {
  const handle = await open(file, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') return undefined;
    throw error;
  });
  if (!handle) return false;
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return true;
}
