// Model layer: makes a vendor's words safe to log. Vendors quote the key they were given, proxies quote whole URLs.

const MAX_CHARS = 500;

/** What looks like a credential, wherever it came from. */
const SECRETS: [RegExp, string][] = [
  // user:password@ in a URL, and any query string (keys travel in them)
  [/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, '$1'],
  [/(\b[a-z][a-z0-9+.-]*:\/\/[^\s?#"']+)[?#][^\s"']*/gi, '$1'],
  [/\b(bearer|basic)\s+[\w.~+/*=-]+/gi, '$1 ***'],
  [
    /\b(api[-_ ]?key|x-api-key|authorization|token|secret|password)(["']?\s*[:=]\s*["']?)[^\s"',;)}]+/gi,
    '$1$2***',
  ],
  // OpenAI and its many imitators, whole or masked in the middle; Google; AWS; JSON web tokens
  [/\b(?:sk|pk|rk|ak|gsk|xai|nvapi|hf|ark|tp)[-_][\w*.-]{6,}/gi, '***'],
  [/\bAIza[\w-]{20,}/g, '***'],
  [/\bAKIA[A-Z0-9]{12,}/g, '***'],
  [/\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?/g, '***'],
];

/** At most 500 characters on one line, without any of `keys` (or a recognisable half of one) and without what looks like one. */
export function redact(text: string, keys: readonly string[] = []): string {
  let safe = text;
  for (const key of keys) {
    if (key.length < 4) continue;
    safe = safe.replaceAll(key, '***').replaceAll(encodeURIComponent(key), '***');
    // "sk-abc…wxyz": masked by the vendor, yet its ends are still the key's.
    if (key.length >= 12) safe = safe.replaceAll(masked(key), '***');
  }
  for (const [pattern, replacement] of SECRETS) safe = safe.replace(pattern, replacement);
  // oxlint-disable-next-line no-control-regex -- a log line stays one line
  safe = safe.replaceAll(/[\u0000-\u001F\u007F]+/g, ' ').trim();
  return safe.length > MAX_CHARS ? `${safe.slice(0, MAX_CHARS - 1)}…` : safe;
}

/** Three or more of the key's first characters, a mask, and two or more of its last. */
function masked(key: string): RegExp {
  const head = escape(key.slice(0, 3));
  const tail = escape(key.slice(-2));
  return new RegExp(`${head}[\\w-]*[*.•…x]{2,}[\\w-]*${tail}`, 'g');
}

const escape = (text: string): string => text.replaceAll(/[$()*+.?[\\\]^{|}-]/g, String.raw`\$&`);
