// Half an emoji (a cut in somebody's text, or in a tool's) is no character: vendors refuse a request that has one, and it would be in
// the history for good. JSON.stringify writes it as an escape, and nothing else of U+D800 to U+DFFF.

const HALF = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

/** JSON that JSON.stringify wrote, with U+FFFD for what is half a character. */
export const wholeCharacters = (json: string): string =>
  json.includes(String.raw`\ud`) ? json.replaceAll(HALF, String.raw`$1\ufffd`) : json;
