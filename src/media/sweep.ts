// Expiry: files that nobody put for `media.ttl_days` are removed, at the start and then every hour. What a delivery names
// that waits or is parked stays until it is gone from the outbox. Several processes may sweep one folder.
import { randomUUID } from 'node:crypto';
import { opendir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../ports/log.ts';
import { createPasses, type Passes } from '../time/passes.ts';

export interface MediaSweep extends Passes {
  /** One pass; resolves with the number of files removed. */
  once(signal?: AbortSignal): Promise<number>;
}

export interface MediaSweepOptions {
  folder: string;
  /** 0: nothing expires; only what was left half written is removed. */
  ttlMs: number;
  /** References that are still to be sent. Asked only when something is old enough, once a pass. */
  wanted: () => AsyncIterable<string>;
  /** Milliseconds since the epoch. */
  now: () => number;
  log: Logger;
  intervalMs?: number;
}

/** Only files with names of ours, in folders of ours, are looked at: the folder may hold others. */
const SHARD = /^[0-9a-f]{2}$/;
const FILE = /^[0-9a-f]{64}\.[a-z0-9]{1,12}$/;
const LEFT_OVER = /^[0-9a-f]{64}\.[a-z0-9]{1,12}\.[0-9a-f-]{36}\.(?:part|old)$/;
const LEFT_OVER_MS = 86_400_000;

export function createMediaSweep(options: MediaSweepOptions): MediaSweep {
  const { folder, ttlMs, now, log, intervalMs = 3_600_000 } = options;

  async function once(signal?: AbortSignal): Promise<number> {
    let removed = 0;
    let wanted: Set<string> | undefined;
    for await (const shard of entriesOf(folder)) {
      if (!SHARD.test(shard)) continue;
      for await (const name of entriesOf(join(folder, shard))) {
        if (signal?.aborted) return removed;
        const place = join(folder, shard, name);
        if (LEFT_OVER.test(name)) {
          if (await isOlder(place, LEFT_OVER_MS)) await rm(place, { force: true });
        } else if (ttlMs > 0 && FILE.test(name) && (await isOlder(place, ttlMs))) {
          wanted ??= await collect(options.wanted());
          if (!wanted.has(`media:${name}`) && (await remove(place))) removed++;
        }
      }
    }
    return removed;
  }

  async function isOlder(place: string, ageMs: number): Promise<boolean> {
    try {
      return (await stat(place)).mtimeMs < now() - ageMs;
    } catch (error) {
      if (isGone(error)) return false;
      throw error;
    }
  }

  /** False: somebody put it again meanwhile, or another process removed it. */
  async function remove(place: string): Promise<boolean> {
    // Aside first: between a look at its age and its removal it may have been put again, which only shows afterwards.
    const aside = `${place}.${randomUUID()}.old`;
    if (!(await moved(place, aside))) return false;
    if (!(await isOlder(aside, ttlMs))) {
      await moved(aside, place);
      return false;
    }
    await rm(aside, { force: true });
    return true;
  }

  const passes = createPasses({
    async pass(signal) {
      const removed = await once(signal);
      if (removed > 0) log.info({ removed }, 'expired files of messages were removed');
    },
    failed: (error) => log.warn({ error }, 'expired files could not be removed; it is tried again'),
    intervalMs,
  });

  return { once, ...passes };
}

/** False: it isn't there any more. */
async function moved(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
}

/** Names in a folder, read as they are needed; none if it isn't there. */
async function* entriesOf(folder: string): AsyncGenerator<string> {
  try {
    for await (const { name } of await opendir(folder)) yield name;
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

async function collect(refs: AsyncIterable<string>): Promise<Set<string>> {
  const all = new Set<string>();
  for await (const ref of refs) all.add(ref);
  return all;
}

const isGone = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
