// The Lua scripts: each file of scripts/ is one atomic operation, called by its hash.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { Client } from './clients.ts';

export type Reply = string | number | null | Reply[];
type Argument = string | number;

/** Sends one script; `name` is its file's name without `.lua`. */
export type RunScript = (
  client: Client,
  name: string,
  keys: readonly string[],
  args: readonly Argument[],
) => Promise<Reply>;

/** `onScript` is told of each: the tests look at them. */
export async function loadScripts(
  onScript?: (name: string, sha: string, source: string) => void,
): Promise<RunScript> {
  const folder = new URL('scripts/', import.meta.url);
  const files = (await readdir(folder)).filter((file) => file.endsWith('.lua'));
  const scripts = new Map(
    await Promise.all(
      files.map(async (file) => {
        const source = await readFile(new URL(file, folder), 'utf8');
        const sha = createHash('sha1').update(source).digest('hex');
        const name = file.slice(0, -'.lua'.length);
        onScript?.(name, sha, source);
        return [name, { source, sha }] as const;
      }),
    ),
  );

  return async (client, name, keys, args) => {
    const script = scripts.get(name);
    if (!script) throw new Error(`no such script: ${name}`);
    try {
      return (await client.evalsha(script.sha, keys.length, ...keys, ...args)) as Reply;
    } catch (error) {
      // A fresh or restarted server: the source once, its hash from then on.
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return (await client.eval(script.source, keys.length, ...keys, ...args)) as Reply;
    }
  };
}
