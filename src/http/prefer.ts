// The Prefer header (RFC 7240): `wait=N` and `respond-async`.

const MAX_WAIT_SECONDS = 300;

/** Seconds to wait for the answer; 0: don't wait. What isn't understood is ignored, as the RFC says. */
export function waitSeconds(header: string | string[] | undefined): number {
  const preferences = (Array.isArray(header) ? header.join(',') : (header ?? '')).split(',');
  for (const preference of preferences) {
    // Parameters after a semicolon belong to extensions.
    const [name = '', value = ''] = preference.split(';')[0]!.split('=');
    if (name.trim().toLowerCase() !== 'wait') continue;
    const seconds = value.trim().replace(/^"(.*)"$/, '$1');
    if (/^\d{1,9}$/.test(seconds)) return Math.min(Number(seconds), MAX_WAIT_SECONDS);
  }
  return 0;
}
