// What a file is: a picture by its first bytes, anything else by what was said of it. The type becomes the reference's
// extension, and the extension gives the type back.
import mime from 'mime';

const UNKNOWN = 'application/octet-stream';
const EXTENSION = /^[a-z0-9]{1,12}$/;
const MAX_NAME_CHARS = 128;

/** Raster pictures that models and browsers take. SVG is not one: it is a document that can hold script. */
const PICTURES = new Map([
  ['image/png', (bytes: Buffer) => starts(bytes, '\u0089PNG\r\n\u001A\n')],
  ['image/jpeg', (bytes: Buffer) => starts(bytes, '\u00FF\u00D8\u00FF')],
  ['image/gif', (bytes: Buffer) => starts(bytes, 'GIF87a') || starts(bytes, 'GIF89a')],
  ['image/webp', (bytes: Buffer) => starts(bytes, 'RIFF') && starts(bytes.subarray(8), 'WEBP')],
]);

const starts = (bytes: Buffer, text: string): boolean =>
  bytes.subarray(0, text.length).equals(Buffer.from(text, 'latin1'));

/** Type and extension (with its dot) of a file. What claims to be such a picture and isn't is of no known type. */
export function typeOf(
  bytes: Buffer,
  said?: string,
  name?: string,
): { media_type: string; extension: string } {
  for (const [picture, matches] of PICTURES) {
    if (matches(bytes)) return { media_type: picture, extension: `.${mime.getExtension(picture) ?? ''}` };
  }
  const declared = said?.split(';')[0]?.trim().toLowerCase();
  const type = better(declared, mime.getType(name ?? ''));
  const extension = mime.getExtension(type ?? '') ?? '';
  const wrong = type === null || PICTURES.has(type) || !EXTENSION.test(extension);
  return wrong
    ? { media_type: UNKNOWN, extension: '.bin' }
    : // The extension's own type: two names of one type are one.
      { media_type: mime.getType(extension) ?? UNKNOWN, extension: `.${extension}` };
}

/** What was said counts, unless it says next to nothing and the name tells more (`prices.csv`, sent as text/plain). */
function better(said: string | undefined, named: string | null): string | null {
  if (said === undefined || mime.getExtension(said) === null || said === UNKNOWN) return named;
  return said === 'text/plain' && named !== null && /^(?:text|application)\//.test(named) ? named : said;
}

export const typeOfExtension = (extension: string): string => mime.getType(extension) ?? UNKNOWN;

/** What people may see as the file's name; undefined if nothing is left of it. */
export function cleanName(name: string | undefined): string | undefined {
  const last = name?.split(/[/\\]/).at(-1) ?? '';
  // Control and format characters (bidi overrides hide a true extension), and what Windows refuses.
  const clean = last.replaceAll(/[\p{C}\u2028\u2029<>:"|?*]/gu, '').trim();
  if (/^\.*$/.test(clean)) return undefined;
  if (clean.length <= MAX_NAME_CHARS) return clean.toWellFormed();
  const tail = /\.[^.]{1,12}$/.exec(clean)?.[0] ?? '';
  return `${clean.slice(0, MAX_NAME_CHARS - tail.length)}${tail}`.toWellFormed();
}

/** `pattern` is a type, `image/*` or `*`. */
export const fits = (media_type: string, pattern: string): boolean =>
  pattern === '*' || pattern === '*/*'
    ? true
    : pattern.endsWith('/*')
      ? media_type.startsWith(pattern.slice(0, -1))
      : media_type === pattern;
