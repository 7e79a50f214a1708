// The media store on a real folder: what a reference is, what is taken, and that nothing outside the folder is reached.
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMediaStore } from '../../src/media/index.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { createTestMedia, png } from '../fakes/media.ts';

const { later } = useCleanups();
const HASH = 'ab'.repeat(32);

const placeOf = (folder: string, ref: string): string => join(folder, ref.slice(6, 8), ref.slice(6));

test('a file comes back by its reference, readable by its owner alone', async () => {
  const media = await createTestMedia(later);
  const kept = await media.put({ bytes: Buffer.from('a,b'), media_type: 'text/csv', name: 'table.csv' });
  expect(kept).toEqual({
    ref: expect.stringMatching(/^media:[0-9a-f]{64}\.csv$/) as string,
    media_type: 'text/csv',
    size: 3,
    name: 'table.csv',
  });
  expect(await media.get(kept.ref)).toEqual({ bytes: Buffer.from('a,b'), media_type: 'text/csv', size: 3 });
  const place = placeOf(media.folder, kept.ref);
  expect((await stat(place)).mode & 0o777).toBe(0o600);
  expect((await stat(join(place, '..'))).mode & 0o777).toBe(0o700);
});

test('the same bytes twice, and at once, are one file; nothing is left beside it', async () => {
  const media = await createTestMedia(later);
  const all = await Promise.all(Array.from({ length: 20 }, () => media.put({ bytes: png() })));
  expect(new Set(all.map(({ ref }) => ref)).size).toBe(1);
  const files = await readdir(media.folder, { recursive: true });
  expect(files.filter((file) => file.includes('.'))).toHaveLength(1);
});

test('to put a file again renews it, and mends one that is damaged', async () => {
  let now = 1_800_000_000_000;
  const media = await createTestMedia(later, { now: () => now });
  const { ref } = await media.put({ bytes: png() });
  now += 86_400_000;
  await media.put({ bytes: png() });
  const place = placeOf(media.folder, ref);
  expect((await stat(place)).mtimeMs).toBe(now);
  await writeFile(place, 'cut');
  await media.put({ bytes: png() });
  expect(await readFile(place)).toEqual(png());
});

test.each([
  ['a picture is known by its bytes', png(), 'text/html', 'a.html', 'image/png'],
  ['jpeg', Buffer.from('ffd8ffe000', 'hex'), 'image/png', undefined, 'image/jpeg'],
  ['gif', Buffer.from('GIF89a...'), undefined, undefined, 'image/gif'],
  ['webp', Buffer.from('RIFF....WEBPVP8 '), undefined, undefined, 'image/webp'],
  [
    'a document that claims to be a picture is none',
    Buffer.from('<script>'),
    'image/png',
    'a.png',
    'application/octet-stream',
  ],
  ['by what was said', Buffer.from('x'), 'Application/PDF; version=1', 'a.txt', 'application/pdf'],
  [
    'else by the name',
    Buffer.from('x'),
    'application/octet-stream',
    'a.DOCX',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  ],
  ['else unknown', Buffer.from('x'), 'application/x-of-their-own', 'README', 'application/octet-stream'],
  ['an empty file', Buffer.alloc(0), 'text/plain', 'a.txt', 'text/plain'],
])('types: %s', async (_what, bytes, media_type, name, expected) => {
  const media = await createTestMedia(later);
  const file = { bytes, ...(media_type && { media_type }), ...(name && { name }) };
  const kept = await media.put(file);
  expect(kept.media_type).toBe(expected);
  expect((await media.get(kept.ref))?.media_type).toBe(expected);
});

test('what is too large, or of a type that is not taken, is refused', async () => {
  const media = await createTestMedia(later, {
    maxBytes: 100,
    types: ['image/*', 'text/plain'],
    denyTypes: ['image/gif'],
  });
  const refused = expect.objectContaining({ code: 'media_refused' }) as unknown;
  await expect(media.put({ bytes: Buffer.alloc(101), media_type: 'text/plain' })).rejects.toEqual(refused);
  await expect(media.put({ bytes: Buffer.from('x'), media_type: 'application/pdf' })).rejects.toEqual(
    refused,
  );
  await expect(media.put({ bytes: Buffer.from('GIF89a') })).rejects.toEqual(refused);
  expect(await media.put({ bytes: png() })).toMatchObject({ media_type: 'image/png' });
  expect(await media.put({ bytes: Buffer.alloc(100), media_type: 'text/plain' })).toMatchObject({
    size: 100,
  });
});

test('no reference reaches outside the folder', async () => {
  const media = await createTestMedia(later);
  const secret = join(media.folder, 'secret.txt');
  await writeFile(secret, 'secret');
  await mkdir(join(media.folder, 'ab'));
  await symlink(secret, join(media.folder, 'ab', `${HASH}.txt`));
  const tries = [
    `media:${HASH}.txt`,
    `media:${HASH}`,
    secret,
    `file://${secret}`,
    'media:../secret.txt',
    `media:${HASH}/../../secret.txt`,
    `media:${HASH}.txt\n`,
    `media:${HASH}.txt/../../../secret.txt`,
    `media:..${HASH.slice(2)}.txt`,
    `media:${HASH.toUpperCase()}.txt`,
    'https://example.com/a.png',
    '',
  ];
  for (const ref of tries) expect(await media.get(ref), ref).toBeUndefined();
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string(),
        fc.string().map((text) => `media:${HASH}${text}`),
      ),
      async (ref) => {
        expect(await media.get(ref)).toBeUndefined();
      },
    ),
    { numRuns: 200 },
  );
});

test.each([
  ['../../etc/passwd', 'passwd'],
  ['C:\\Users\\ada\\plan.docx', 'plan.docx'],
  ['invoice\u202Efdp.exe', 'invoicefdp.exe'],
  ['a\r\nSet-Cookie: x.txt', 'aSet-Cookie x.txt'],
  ['..', undefined],
  ['报告 2026.pdf', '报告 2026.pdf'],
  [`${'a'.repeat(300)}.pdf`, `${'a'.repeat(124)}.pdf`],
])('the name %j is shown as %j', async (name, shown) => {
  const media = await createTestMedia(later);
  const kept = await media.put({ bytes: Buffer.from('x'), media_type: 'application/pdf', name });
  expect(kept.name).toBe(shown);
  expect(kept.ref).toMatch(/\.pdf$/);
});

test('a folder that can’t be used is a trouble of the storage, told without its path', async () => {
  const { folder } = await createTestMedia(later);
  await writeFile(join(folder, 'file'), '');
  const options = { maxBytes: 100, types: ['*'], denyTypes: [], now: Date.now };
  const broken = createMediaStore({ folder: join(folder, 'file', 'media'), ...options });
  const error: unknown = await broken.put({ bytes: png() }).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'storage_unavailable' });
  expect(String(error)).not.toContain(folder);
  expect(await broken.get(`media:${HASH}.png`)).toBeUndefined();
});
