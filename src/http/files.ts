// Files of the media store over HTTP. What strangers and models made is never a page of ours: only pictures that browsers decode
// themselves are shown in place, everything else is a download, and nothing in it may run.
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { AppError } from '../domain/errors.ts';
import type { MediaFile, MediaStore } from '../ports/media.ts';

const INLINE: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

export const fileParams = z.object({
  account: z.string(),
  ref: z.string().max(128).describe('The reference, with or without "media:" before it.'),
});
export const nameQuery = z.object({
  name: z.string().max(256).optional().describe('What the file is called.'),
});

/** Throws not_found. */
export async function sendFile(
  reply: FastifyReply,
  media: Pick<MediaStore, 'get'>,
  { ref, name }: { ref: string; name?: string | undefined },
): Promise<FastifyReply> {
  const file = await media.get(ref.startsWith('media:') ? ref : `media:${ref}`);
  if (!file) throw new AppError('not_found', 'There is no such file, or it has expired.');
  const inline = INLINE.has(file.media_type);
  return (
    reply
      .header('content-type', file.media_type)
      .header(
        'content-disposition',
        disposition(inline ? 'inline' : 'attachment', name ?? ref.replace(/^media:/, '')),
      )
      .header('content-security-policy', "default-src 'none'; sandbox; frame-ancestors 'none'")
      .header('x-content-type-options', 'nosniff')
      // The reference is the content's own hash; "private": the next person at this cache has no key.
      .header('cache-control', 'private, max-age=86400, immutable')
      .send(file.bytes)
  );
}

/** Throws media_refused, or bad_request for a body that isn't there. */
export async function keepFile(
  media: MediaStore,
  body: unknown,
  { type, name }: { type: string | undefined; name: string | undefined },
): Promise<MediaFile> {
  if (!Buffer.isBuffer(body) || body.length === 0)
    throw new AppError('bad_request', "Send the file's bytes as the body.");
  return media.put({
    bytes: body,
    ...(type === undefined ? {} : { media_type: type }),
    ...(name === undefined ? {} : { name }),
  });
}

/** RFC 6266: an ASCII stand-in, and the name itself. */
function disposition(how: 'inline' | 'attachment', name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]|["\\%/]/g, '_');
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16)}`,
  );
  return `${how}; filename="${plain}"; filename*=UTF-8''${encoded}`;
}
