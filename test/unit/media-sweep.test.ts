// Expiry on a real folder: what is old goes, what is to be sent stays, and nothing that isn't ours is touched.
import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createMediaSweep, type MediaSweepOptions } from '../../src/media/sweep.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { recordingLog } from '../fakes/log.ts';
import { createTestMedia, png } from '../fakes/media.ts';

const { later } = useCleanups();
const DAY_MS = 86_400_000;

async function setUp(more: Partial<MediaSweepOptions> = {}) {
  let now = Date.now();
  const media = await createTestMedia(later, { now: () => now });
  let asked = 0;
  const { log } = recordingLog();
  const sweep = createMediaSweep({
    folder: media.folder,
    ttlMs: 7 * DAY_MS,
    async *wanted() {
      asked++;
      yield* [];
    },
    now: () => now,
    log,
    ...more,
  });
  later(() => sweep.stop());
  return { media, sweep, asked: () => asked, pass: (ms: number) => (now += ms) };
}

test('files go when nobody put them for the time they are kept', async () => {
  const { media, sweep, asked, pass } = await setUp();
  const old = await media.put({ bytes: png('old') });
  const renewed = await media.put({ bytes: png('renewed') });
  pass(6 * DAY_MS);
  await media.put({ bytes: png('renewed') });
  expect(await sweep.once()).toBe(0);
  expect(asked()).toBe(0);
  pass(DAY_MS + 1);
  expect(await sweep.once()).toBe(1);
  expect(await media.get(old.ref)).toBeUndefined();
  expect(await media.get(renewed.ref)).toBeDefined();
});

test('what is still to be sent stays until it is sent', async () => {
  const toSend = new Set<string>();
  const { media, sweep, pass } = await setUp({
    async *wanted() {
      yield* toSend;
    },
  });
  const { ref } = await media.put({ bytes: png() });
  toSend.add(ref);
  pass(30 * DAY_MS);
  expect(await sweep.once()).toBe(0);
  expect(await media.get(ref)).toBeDefined();
  toSend.clear();
  expect(await sweep.once()).toBe(1);
});

test('a file that is put again while it is being removed is not lost', async () => {
  const { media, sweep, pass } = await setUp({
    // Between the look at its age and its removal.
    async *wanted() {
      yield (await media.put({ bytes: png('another') })).ref;
      await media.put({ bytes: png() });
    },
  });
  const { ref } = await media.put({ bytes: png() });
  pass(30 * DAY_MS);
  expect(await sweep.once()).toBe(0);
  expect(await media.get(ref)).toBeDefined();
});

test('files of others in the folder are left alone; what was left half written is cleared away', async () => {
  const { media, sweep, pass } = await setUp();
  const hash = 'ab'.repeat(32);
  const others = ['notes.txt', 'ab/notes.txt', `xy/${hash}.png`, `${hash}.png`];
  const leftOver = `ab/${hash}.png.${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}.part`;
  await Promise.all(['ab', 'xy'].map((folder) => mkdir(join(media.folder, folder))));
  for (const file of [...others, leftOver]) {
    await writeFile(join(media.folder, file), '');
    await utimes(join(media.folder, file), 1, 1);
  }
  pass(DAY_MS);
  expect(await sweep.once()).toBe(0);
  const left = await readdir(media.folder, { recursive: true });
  expect(left.filter((file) => file.includes('.')).sort()).toEqual(others.sort());
});

test('kept for good with 0; no folder is no trouble; two processes may sweep at once', async () => {
  const { media, sweep } = await setUp({ ttlMs: 0 });
  expect(await sweep.once()).toBe(0);
  const { ref } = await media.put({ bytes: png() });
  await utimes(join(media.folder, ref.slice(6, 8), ref.slice(6)), 1, 1);
  expect(await sweep.once()).toBe(0);
  expect(await media.get(ref)).toBeDefined();

  const { media: full, sweep: other, pass } = await setUp();
  for (let n = 0; n < 300; n++) {
    const hash = n.toString(16).padStart(64, '0').split('').reverse().join('');
    await mkdir(join(full.folder, hash.slice(0, 2)), { recursive: true });
    await writeFile(join(full.folder, hash.slice(0, 2), `${hash}.txt`), '');
  }
  pass(8 * DAY_MS);
  // Two processes at once: each file is removed once.
  const removed = await Promise.all([other.once(), other.once()]);
  expect(removed[0] + removed[1]).toBe(300);
});
