// @ts-check
// The requests of the page. Every failure is a Problem: a code and a status that strings.js has a sentence for.

/** @typedef {import('../../../src/domain/messages.ts').HistoryEntry} HistoryEntry */
/**
 * @typedef {{ messages: HistoryEntry[], cursor?: string, run?: string, pending: number, event_id: string }} ConversationPage
 * @typedef {{ accounts: { name: string, signed_in: boolean }[] }} Session
 * @typedef {{ id: string, conversation: string, status: 'queued' | 'duplicate' | 'command' | 'ignored', reply?: string }} Sent
 */

export class Problem extends Error {
  /**
   * @param {string} code from the server's error catalogue, or `network`
   * @param {number} status 0 if there was no answer
   * @param {string} detail
   * @param {number} [retryAfterMs]
   */
  constructor(code, status, detail, retryAfterMs) {
    super(detail || code);
    this.name = 'Problem';
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryAfterMs = retryAfterMs;
  }

  /** True if the same request may succeed later. */
  get temporary() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** How long a request may take before it counts as lost. A message that was taken twice is answered once. */
const REQUEST_MS = 20_000;
const UPLOAD_MS = 120_000;

/** @param {string} path @param {RequestInit & { json?: unknown, timeoutMs?: number }} [init] @returns {Promise<unknown>} */
async function request(path, { json, timeoutMs = REQUEST_MS, ...init } = {}) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, {
      cache: 'no-store',
      ...init,
      ...(json === undefined
        ? {}
        : { body: JSON.stringify(json), headers: { 'content-type': 'application/json' } }),
      signal: AbortSignal.timeout(timeoutMs),
    });
  } catch {
    throw new Problem('network', 0, '');
  }
  const text = await response.text().catch(() => {
    throw new Problem('network', 0, '');
  });
  /** @type {any} */
  let body;
  try {
    body = text === '' ? undefined : JSON.parse(text);
  } catch {
    body = undefined; // a proxy's HTML page, for instance: the status says enough
  }
  if (response.ok) return body;
  const seconds = Number(response.headers.get('retry-after'));
  throw new Problem(
    typeof body?.code === 'string' ? body.code : 'http',
    response.status,
    typeof body?.detail === 'string' ? body.detail : '',
    seconds > 0 ? seconds * 1000 : undefined,
  );
}

/** @returns {Promise<Session>} */
export const getSession = () => /** @type {Promise<Session>} */ (request('/web/session'));

/** @param {string} key */
export const signIn = (key) => request('/web/session', { method: 'POST', json: { key } });

/** @param {string} account @param {File} file @returns {Promise<import('./attach.js').KeptFile>} */
export const uploadFile = (account, file) =>
  /** @type {Promise<import('./attach.js').KeptFile>} */ (
    request(`/web/${encodeURIComponent(account)}/media?name=${encodeURIComponent(file.name)}`, {
      method: 'POST',
      body: file,
      headers: { 'content-type': file.type || 'application/octet-stream' },
      timeoutMs: UPLOAD_MS,
    })
  );

/** @param {string} account @param {string} chat */
export function createConversationApi(account, chat) {
  const base = `/web/${encodeURIComponent(account)}/conversations/${encodeURIComponent(chat)}`;
  return {
    eventsUrl: `${base}/events`,
    /** @param {string} [cursor] @returns {Promise<ConversationPage>} */
    load: (cursor) =>
      /** @type {Promise<ConversationPage>} */ (
        request(cursor === undefined ? base : `${base}?cursor=${encodeURIComponent(cursor)}`)
      ),
    /** @param {{ id: string, text: string, files?: import('./attach.js').KeptFile[] }} message @returns {Promise<Sent>} */
    send: (message) =>
      /** @type {Promise<Sent>} */ (request(`${base}/messages`, { method: 'POST', json: message })),
    cancel: () => request(`${base}/cancel`, { method: 'POST', json: {} }),
  };
}
