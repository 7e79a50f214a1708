// The real media store in a folder of its own, and a picture to put into it.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createMediaStore } from '../../src/media/index.ts';
import type { MediaStore } from '../../src/ports/media.ts';

export interface TestMedia extends MediaStore {
  folder: string;
}

interface Options {
  maxBytes?: number;
  types?: string[];
  denyTypes?: string[];
  now?: () => number;
}

export async function createTestMedia(
  later: (undo: () => Promise<unknown>) => void,
  { maxBytes = 1_000_000, types = ['*'], denyTypes = [], now = Date.now }: Options = {},
): Promise<TestMedia> {
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-media-'));
  later(() => rm(folder, { recursive: true, force: true }));
  return { folder, ...createMediaStore({ folder, maxBytes, types, denyTypes, now }) };
}

/** One pixel; `more` bytes after its end make it another one, of another size. */
export const png = (more = ''): Buffer =>
  Buffer.concat([
    Buffer.from(
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
      'base64',
    ),
    Buffer.from(more),
  ]);
