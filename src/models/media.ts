// Model layer: pictures and files of a message in a request. Only inline data and public URLs can be sent; what can't
// is named in words, so that the model knows that something was there.
import type { FileBlock, ImageBlock } from '../domain/messages.ts';

/** A `data:` or http(s) URL; undefined if there is nothing to send. */
export function imageUrl(block: ImageBlock): string | undefined {
  if (block.data !== undefined) return `data:${block.media_type};base64,${block.data}`;
  return publicUrl(block);
}

export const publicUrl = (block: ImageBlock): string | undefined =>
  block.ref !== undefined && /^https?:\/\//.test(block.ref) ? block.ref : undefined;

export const imageNote = (block: ImageBlock, takesImages: boolean): string =>
  takesImages
    ? `(a picture, ${block.media_type}, that is no longer available)`
    : `(a picture, ${block.media_type}; you can't see pictures)`;

export const fileNote = (block: FileBlock): string =>
  `(a file: ${block.name}, ${block.media_type}${block.size === undefined ? '' : `, ${block.size} bytes`})`;
