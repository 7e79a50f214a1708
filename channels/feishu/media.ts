// Files of messages: fetched with a size cap into the data folder, and passed on by path. The name comes from the platform's
// key, so that a redelivery finds what was fetched before.
import { createHash } from 'node:crypto';
import { mkdir, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Attachment } from '../../src/domain/inbound.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { FeishuApi } from './client/api.ts';
import type { Resource } from './content.ts';

export interface Fetched {
  attachments: Attachment[];
  /** What could not be fetched, in words for the model. */
  notes: string[];
}

export interface Media {
  /** Never rejects. */
  fetch(message: string, resources: Resource[]): Promise<Fetched>;
}

export interface MediaOptions {
  api: Pick<FeishuApi, 'resource'>;
  folder: string;
  maxBytes: number;
  log: Logger;
}

/** The platform waits 3 s for the acknowledgement. */
const PATIENCE_MS = 2_000;
const MAX_FILES = 10;
const EXTENSIONS: Record<string, string> = {
  'image/png': '.png',
  'image/jpeg': '.jpg',
  'image/gif': '.gif',
  'image/webp': '.webp',
};

export function createMedia({ api, folder, maxBytes, log }: MediaOptions): Media {
  async function fetchOne(message: string, resource: Resource): Promise<Attachment> {
    const { type, key, name } = resource;
    const { bytes, mediaType } = await api.resource(
      message,
      key,
      type === 'image' ? 'image' : 'file',
      maxBytes,
    );
    const media_type = type === 'image' ? (imageType(bytes) ?? mediaType) : mediaType;
    const file = createHash('sha256').update(`${message}/${key}`).digest('hex').slice(0, 32);
    const ref = join(folder, `${file}${EXTENSIONS[media_type] ?? ''}`);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const known = await stat(ref).catch(() => undefined);
    if (known?.size !== bytes.length) {
      const part = `${ref}.${process.pid}.part`;
      await writeFile(part, bytes, { mode: 0o600 });
      await rename(part, ref);
    }
    return { type, ref, media_type, size: bytes.length, ...(name === undefined ? {} : { name }) };
  }

  return {
    async fetch(message, resources) {
      const { promise: late, resolve } = Promise.withResolvers<'late'>();
      const timer = setTimeout(() => resolve('late'), PATIENCE_MS);
      try {
        const results = await Promise.all(
          resources.slice(0, MAX_FILES).map(async (resource) => {
            const fetched = fetchOne(message, resource).catch((error: unknown) => {
              log.warn({ message, error }, 'a file of a message could not be fetched');
              return undefined;
            });
            const found = await Promise.race([fetched, late]);
            return found === 'late' || found === undefined ? noteOf(resource) : found;
          }),
        );
        return {
          attachments: results.filter((result) => typeof result !== 'string'),
          notes: results.filter((result) => typeof result === 'string'),
        };
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

const noteOf = ({ type, name }: Resource): string =>
  `(a file of type ${type}${name === undefined ? '' : `, ${name}`}, that could not be fetched)`;

/** By its first bytes: what a server says of a picture's type isn't reliable. */
function imageType(bytes: Buffer): string | undefined {
  if (bytes.subarray(0, 4).equals(Buffer.from([0x89, 0x50, 0x4e, 0x47]))) return 'image/png';
  if (bytes.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff]))) return 'image/jpeg';
  if (bytes.subarray(0, 4).toString('latin1') === 'GIF8') return 'image/gif';
  const isWebp =
    bytes.subarray(0, 4).toString('latin1') === 'RIFF' && bytes.subarray(8, 12).toString('latin1') === 'WEBP';
  return isWebp ? 'image/webp' : undefined;
}
