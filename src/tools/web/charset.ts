// Bytes of a page → text, whatever encoding it is in: as its first bytes say, else its header, else the page itself; if
// none does, UTF-8 if it is that, then GB 18030 (which GBK is a part of), then Windows-1252, which takes anything.

/** Where HTML and XML say it; the HTML standard looks at the first 1,024 bytes. */
const SNIFF_BYTES = 2_048;
const META = /<meta[^>]{1,200}?charset\s*=\s*["']?\s*([\w.:-]{2,40})/iu;
const XML = /^\s*<\?xml[^>]{1,200}?encoding\s*=\s*["']([\w.:-]{2,40})/iu;

export function decodeText(body: Uint8Array, contentType = ''): string {
  const head = new TextDecoder('latin1').decode(body.subarray(0, SNIFF_BYTES));
  const named = [
    markOf(body),
    /charset\s*=\s*["']?([\w.:-]{2,40})/iu.exec(contentType)?.[1],
    // A mark that can be read as ASCII is not in UTF-16, whatever it says (HTML standard, 13.2.3.3).
    META.exec(head)?.[1]?.replace(/^utf-?16.*/iu, 'utf-8'),
    XML.exec(head)?.[1],
  ];
  for (const label of named) {
    const decoder = label === undefined ? undefined : decoderOf(label, false);
    // `stream`: a text that was cut in the middle of a character ends before it.
    if (decoder) return decoder.decode(body, { stream: true });
  }
  for (const label of ['utf-8', 'gb18030']) {
    try {
      return new TextDecoder(label, { fatal: true }).decode(body, { stream: true });
    } catch {
      // Not in this encoding: the next one.
    }
  }
  return new TextDecoder('windows-1252').decode(body);
}

function markOf(body: Uint8Array): string | undefined {
  const [a, b, c] = body;
  if (a === 0xef && b === 0xbb && c === 0xbf) return 'utf-8';
  if (a === 0xff && b === 0xfe) return 'utf-16le';
  return a === 0xfe && b === 0xff ? 'utf-16be' : undefined;
}

/** Undefined for a label that the Encoding standard doesn't know. */
function decoderOf(label: string, fatal: boolean): TextDecoder | undefined {
  try {
    return new TextDecoder(label, { fatal });
  } catch {
    return undefined;
  }
}
