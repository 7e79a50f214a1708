// Which Redis commands a message costs, each by name: those sent by the server, and those that scripts run inside Redis.
// MONITOR tells the two apart (INFO commandstats adds them up); scripts are named by the SHA-1 of their text.
import { createHash } from 'node:crypto';
import { glob, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Redis } from 'ioredis';

export interface CommandCount {
  /** Calls by name over the connection; `evalsha` and `fcall` are given the script's name. */
  sent: Map<string, number>;
  /** Calls by name inside scripts. */
  inside: Map<string, number>;
}

const root = join(import.meta.dirname, '..', '..');

const sha = (text: string): string => createHash('sha1').update(text).digest('hex');

/** From the SHA-1 of every script that we and BullMQ send to its name. */
async function scriptNames(): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  for await (const file of glob(join(root, 'src/storage/redis/scripts/**/*.lua')))
    names.set(sha(await readFile(file, 'utf8')), basename(file, '.lua'));
  for await (const file of glob(join(root, 'node_modules/bullmq/dist/cjs/scripts/*.js'))) {
    const text = /const content = `([\s\S]*?)`;\n/.exec(await readFile(file, 'utf8'))?.[1];
    if (text !== undefined)
      names.set(sha(text.replaceAll('\\\\', '\\')), `bullmq ${basename(file, '.js').replace(/-\d+$/, '')}`);
  }
  return names;
}

/** Counts while `work` runs. MONITOR slows Redis down: nothing is timed meanwhile. */
export async function countCommands(url: string, work: () => Promise<void>): Promise<CommandCount> {
  const names = await scriptNames();
  const sent = new Map<string, number>();
  const inside = new Map<string, number>();
  const client = new Redis(url);
  const monitor = await client.monitor();
  monitor.on('monitor', (_time: string, args: string[], source: string) => {
    const command = (args[0] ?? '').toLowerCase();
    const script = command === 'evalsha' ? (names.get(args[1] ?? '') ?? args[1]?.slice(0, 8)) : undefined;
    const name = script === undefined ? command : `${command} ${script}`;
    const counts = source === 'lua' ? inside : sent;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  });
  try {
    await work();
  } finally {
    monitor.disconnect();
    client.disconnect();
  }
  return { sent, inside };
}
