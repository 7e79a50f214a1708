// Pictures as vendors look at them: of a kind they know, really of that kind, and not too large.
import { isObject, str, type Json } from './types.ts';

const BEGINNINGS: Record<string, string> = {
  'image/png': '89504e47',
  'image/jpeg': 'ffd8ff',
  'image/gif': '47494638',
  'image/webp': '52494646',
};

/** As base64 text. */
const MAX_CHARS = 5 * 1024 * 1024;

export interface SentPicture {
  media_type: string;
  bytes: Buffer;
}

/** Of an `image` block or an `image_url` part; undefined if it is sent by URL. */
function pictureIn(part: Json): SentPicture | undefined {
  const { source, image_url } = part;
  if (isObject(source) && source.type === 'base64')
    return { media_type: str(source.media_type), bytes: Buffer.from(str(source.data), 'base64') };
  const url = isObject(image_url) ? str(image_url.url) : '';
  const [, media_type, data] = /^data:([^;,]*);base64,(.*)$/s.exec(url) ?? [];
  return media_type === undefined ? undefined : { media_type, bytes: Buffer.from(data ?? '', 'base64') };
}

/** All that a request's body holds, in order. */
export function picturesIn(value: unknown): SentPicture[] {
  if (Array.isArray(value)) return value.flatMap(picturesIn);
  if (!isObject(value)) return [];
  const own = pictureIn(value);
  return own ? [own] : Object.values(value).flatMap(picturesIn);
}

/** Why a vendor would refuse the picture. */
export function badPicture(part: Json): string | undefined {
  const picture = pictureIn(part);
  if (!picture) return undefined;
  const { media_type, bytes } = picture;
  const beginning = BEGINNINGS[media_type];
  if (beginning === undefined)
    return `media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'`;
  if (!bytes.toString('hex').startsWith(beginning)) return 'Could not process image';
  if ((bytes.length * 4) / 3 > MAX_CHARS) return 'image exceeds 5 MB maximum';
  return undefined;
}
