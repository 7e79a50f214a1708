// What the operating system says about another process (Linux /proc): CPU time and resident memory.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import type { z } from 'zod';

/** Clock ticks a second of /proc/<pid>/stat: 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/** User and system time of a process so far, in milliseconds; resolution 10 ms. */
export async function cpuMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The second field is the command's name in parentheses and may hold spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
}

/** Resident memory in megabytes (10^6 bytes). */
export async function rssMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const kb = Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]);
  return (kb * 1024) / 1e6;
}

export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  server.close();
  await once(server, 'close');
  return address.port;
}

/**
 * Runs a script of the benchmark in a process of its own, so that memory and connections are its alone, and returns
 * the JSON that it prints last.
 */
export async function runJson<T>(script: string, args: string[], shape: z.ZodType<T>): Promise<T> {
  const child = spawn(process.execPath, ['--expose-gc', script, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8');
  child.stdout.on('data', (chunk: string) => (output += chunk));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${script} ended with code ${String(code)}`);
  const last = output.trimEnd().split('\n').at(-1) ?? '';
  return shape.parse(JSON.parse(last));
}
