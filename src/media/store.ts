// MediaStore in a folder: `<folder>/ab/<sha256><.extension>`. A file is there whole or not at all: written beside its place
// and renamed into it. The folder may be on a file system that several machines share.
import { createHash, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError } from '../domain/errors.ts';
import type { MediaStore } from '../ports/media.ts';
import { cleanName, fits, typeOf, typeOfExtension } from './types.ts';

export interface MediaStoreOptions {
  folder: string;
  maxBytes: number;
  /** Patterns: a type, `image/*` or `*`. */
  types: readonly string[];
  /** Of those, the ones that are refused. */
  denyTypes: readonly string[];
  /** Milliseconds since the epoch. */
  now: () => number;
}

/** Nothing else is looked for in the folder: no separator, no dots but one. */
const REF = /^media:([0-9a-f]{64})\.([a-z0-9]{1,12})$/;

export function createMediaStore(options: MediaStoreOptions): MediaStore {
  const { folder, maxBytes, types, denyTypes, now } = options;
  const placeOf = (hash: string, extension: string): string =>
    join(folder, hash.slice(0, 2), `${hash}${extension}`);

  /** False: it isn't there, or not as it should be. */
  async function touch(place: string, size: number): Promise<boolean> {
    const file = await openOurs(place);
    if (!file) return false;
    try {
      if ((await file.stat()).size !== size) return false;
      await file.utimes(now() / 1000, now() / 1000);
      return true;
    } finally {
      await file.close();
    }
  }

  async function write(place: string, bytes: Buffer): Promise<void> {
    const part = `${place}.${randomUUID()}.part`;
    await mkdir(dirname(place), { recursive: true, mode: 0o700 });
    try {
      // Flushed: what is journaled after this must not name a file that a power cut takes away.
      await writeFile(part, bytes, { mode: 0o600, flag: 'wx', flush: true });
      await utimes(part, now() / 1000, now() / 1000);
      await rename(part, place);
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
  }

  return {
    maxBytes,
    async put({ bytes: given, media_type: said, name: called }) {
      const bytes = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
      if (bytes.length > maxBytes)
        throw new AppError('media_refused', `The file has ${bytes.length} bytes; ${maxBytes} are allowed.`);
      const { media_type, extension } = typeOf(bytes, said, called);
      const fitting = (pattern: string): boolean => fits(media_type, pattern);
      if (!types.some(fitting) || denyTypes.some(fitting))
        throw new AppError('media_refused', `Files of type ${media_type} are not taken.`);
      const hash = createHash('sha256').update(bytes).digest('hex');
      const place = placeOf(hash, extension);
      await guarded(async () => {
        if (!(await touch(place, bytes.length))) await write(place, bytes);
      });
      const name = cleanName(called);
      const ref = `media:${hash}${extension}`;
      return { ref, media_type, size: bytes.length, ...(name === undefined ? {} : { name }) };
    },
    async get(ref) {
      const [, hash, extension] = REF.exec(ref) ?? [];
      if (hash === undefined || extension === undefined) return undefined;
      return guarded(async () => {
        const file = await openOurs(placeOf(hash, `.${extension}`));
        if (!file) return undefined;
        try {
          const bytes = await file.readFile();
          return { bytes, media_type: typeOfExtension(extension), size: bytes.length };
        } finally {
          await file.close();
        }
      });
    },
  };
}

/** Undefined if it isn't there. A link that somebody put there is not followed. */
async function openOurs(place: string): Promise<Awaited<ReturnType<typeof open>> | undefined> {
  try {
    return await open(place, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes(codeOf(error))) return undefined;
    throw error;
  }
}

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new AppError('storage_unavailable', `The media folder can't be used (${codeOf(error)}).`, {
      cause: error,
    });
  }
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown';
