// The whole HTTP side under arbitrary requests: any method, path, headers and body, with and without credentials. Whatever comes,
// the answer is one of ours: never a 5xx, never a stack, an error always a problem, and the server goes on.
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ADMIN, KEY, startHttpApp, type HttpApp } from '../fakes/http-app.ts';

let http: HttpApp;
beforeAll(async () => {
  http = await startHttpApp({
    channels: {
      webhook: { type: 'webhook', api_keys: [KEY], limits: { per_minute: 1_000_000 } },
      web: { type: 'web', limits: { per_minute: 1_000_000 } },
    },
  });
});
afterAll(() => http.close());

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 12 })
    .map((units) => String.fromCharCode(...units)),
  fc.constantFrom('', '.', '..', '%', '%00', '%ff', 'webhook:c', 'null', '-1', '1e999', '{}', '[]', '\u0000'),
);
/** What an HTTP client can put into a header. */
const headerText = fc.oneof(
  fc.string({ maxLength: 60 }).map((text) => text.replaceAll(/[^\x20-\x7e]/g, '~')),
  fc.constantFrom(
    '',
    '0',
    '-1',
    'wait=9999999999',
    'respond-async;;,=',
    '0-0',
    '18446744073709551616-1',
    '*/*,;q=',
  ),
);
/** As they are, and as a careless client writes them: not encoded where they can stand so. */
const segment = fc.oneof(
  anyText.map((text) => encodeURIComponent(text.toWellFormed())),
  fc.string({ maxLength: 20 }).map((text) => text.replaceAll(/[^\x21-\x7e]|[#?\\]/g, '')),
);

const routes = fc.constantFrom(
  (a: string) => `/webhook/${a}`,
  () => '/webhook/webhook',
  () => '/webhook/webhook',
  (a: string) => `/webhook/webhook/messages/${a}`,
  (a: string) => `/webhook/webhook/conversations/${a}/cancel`,
  () => '/v1/chat/completions',
  () => '/v1/models',
  (a: string) => `/v1/${a}`,
  (a: string) => `/web/web/conversations/${a}/messages`,
  (a: string) => `/web/web/conversations/${a}`,
  (a: string) => `/web/${a}/conversations/x/cancel`,
  () => '/web/session',
  (a: string) => `/channels/${a}/events`,
  () => '/channels/webhook/events',
  () => '/api/conversations',
  (a: string) => `/api/conversations/${a}`,
  (a: string) => `/api/conversations/${a}/reset`,
  (a: string, b: string) => `/api/conversations/${a}/messages/${b}/retry`,
  () => '/api/messages',
  () => '/api/deliveries',
  (a: string) => `/api/deliveries/${a}/retry`,
  (a: string) => `/api/pairings/${a}/approve`,
  (a: string) => `/api/pairings/${a}`,
  () => '/console/session',
  () => '/docs',
  (a: string) => `/assets/${a}`,
  (a: string, b: string) => `/${a}/${b}`,
);

const nearly = fc.record(
  {
    conversation: fc.oneof(anyText, fc.anything()),
    text: fc.oneof(anyText, fc.anything()),
    id: fc.oneof(anyText, fc.anything()),
    key: fc.oneof(anyText, fc.anything()),
    token: fc.oneof(anyText, fc.anything()),
    sender: fc.oneof(fc.record({ id: anyText }), fc.anything()),
    attachments: fc.oneof(fc.array(fc.record({ url: fc.oneof(fc.webUrl(), anyText) })), fc.anything()),
    callback_url: fc.oneof(fc.webUrl(), anyText),
    model: fc.oneof(anyText, fc.anything()),
    user: fc.oneof(anyText, fc.anything()),
    stream: fc.anything(),
    stream_options: fc.anything(),
    messages: fc.oneof(
      fc.array(
        fc.record({
          role: fc.oneof(fc.constantFrom('user', 'assistant', 'system', 'developer', 'tool'), anyText),
          content: fc.oneof(
            anyText,
            fc.array(
              fc.record({
                type: fc.constantFrom('text', 'image_url', 'x'),
                text: anyText,
                image_url: fc.anything(),
              }),
            ),
            fc.anything(),
          ),
          tool_calls: fc.anything(),
        }),
        { maxLength: 4 },
      ),
      fc.anything(),
    ),
  },
  { requiredKeys: [] },
);
const good = fc.record({
  conversation: fc.stringMatching(/^\w{1,9}$/),
  text: fc.stringMatching(/^\w{1,9}$/),
});
const body = fc.oneof(
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)) },
  { weight: 1, arbitrary: fc.json().map((text) => Buffer.from(text)) },
  { weight: 1, arbitrary: good.map((value) => Buffer.from(JSON.stringify(value))) },
  { weight: 3, arbitrary: nearly.map((value) => Buffer.from(JSON.stringify(value))) },
);

const requests = fc.record({
  method: fc.constantFrom('GET', 'POST', 'POST', 'POST', 'DELETE', 'PUT', 'PATCH'),
  path: fc.tuple(routes, segment, segment).map(([route, a, b]) => route(a, b)),
  query: fc.option(
    fc.dictionary(fc.constantFrom('cursor', 'limit', 'state', 'after', 'x'), anyText, { maxKeys: 3 }),
    { nil: undefined },
  ),
  headers: fc.dictionary(
    fc.constantFrom(
      'webhook-id',
      'webhook-signature',
      'webhook-timestamp',
      'idempotency-key',
      'prefer',
      'accept',
      'last-event-id',
      'cookie',
      'x-conversation-id',
      'x-lark-signature',
      'x-lark-request-timestamp',
      'origin',
      'if-none-match',
    ),
    headerText,
    { maxKeys: 4 },
  ),
  type: fc.oneof(
    { weight: 4, arbitrary: fc.constant('application/json') },
    { weight: 1, arbitrary: headerText },
  ),
  token: fc.constantFrom(undefined, KEY, ADMIN, 'wrong'),
  body,
});

/** So that each kind of answer is seen whatever else is drawn. */
const certain: [typeof requests extends fc.Arbitrary<infer R> ? R : never][] = (
  [
    ['POST', '/webhook/webhook', KEY, '{"conversation":"c","text":"Hello"}'],
    ['POST', '/webhook/webhook', KEY, '{"conversation":"c"}'],
    ['POST', '/webhook/webhook', KEY, '{'],
    ['POST', '/webhook/webhook', undefined, '{}'],
    ['GET', '/api/conversations', ADMIN, ''],
    ['GET', '/nowhere', ADMIN, ''],
  ] as const
).map(([method, path, token, text]) => [
  {
    method,
    path,
    token,
    query: undefined,
    headers: {},
    type: 'application/json',
    body: Buffer.from(text),
  },
]);

const STACK = /\n\s+at |node_modules|\.ts:\d|file:\/\//;

test('every request gets an answer of ours', async () => {
  const seen = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(requests, async ({ method, path, query, headers, type, token, body: payload }) => {
      const search = query
        ? `?${Object.entries(query)
            .map(([name, value]) => `${name}=${encodeURIComponent(value.toWellFormed())}`)
            .join('&')}`
        : '';
      const withBody = method !== 'GET' && payload.length > 0;
      const response = await http.app.inject({
        method: method as 'GET',
        url: path + search,
        headers: {
          ...headers,
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(withBody ? { 'content-type': type } : {}),
        },
        ...(withBody ? { payload } : {}),
      });
      seen.set(response.statusCode, (seen.get(response.statusCode) ?? 0) + 1);
      // 503 is what /v1 says of a run that failed.
      expect(
        response.statusCode === 503 || response.statusCode < 500,
        `${method} ${path}: ${response.statusCode}`,
      ).toBe(true);
      expect(response.body).not.toMatch(STACK);
      if (response.statusCode >= 400) {
        const told = response.json<{ code?: unknown; error?: { code?: unknown } }>();
        expect(told.code ?? told.error?.code).toBeDefined();
      }
    }),
    { numRuns: 600, examples: certain },
  );
  // The requests came as far as the routes themselves.
  for (const status of [200, 202, 400, 401, 404, 422]) expect([...seen.keys()]).toContain(status);
  expect(http.lines.filter(({ level }) => level === 'error')).toEqual([]);
  expect((await fetch(`${http.url}/healthz`)).status).toBe(200);
});

test('any Last-Event-ID leads to a stream that ends with the answer', async () => {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', prefer: 'wait=10' };
  const sent = await fetch(`${http.url}/webhook/webhook`, {
    method: 'POST',
    headers: { ...headers, 'idempotency-key': 'followed' },
    body: JSON.stringify({ conversation: 'followed', text: 'hello' }),
  });
  expect(sent.status).toBe(200);
  const id = fc.oneof(
    headerText,
    fc.tuple(fc.bigInt({ min: 0n, max: 1n << 70n }), fc.nat()).map(([a, b]) => `${a}-${b}`),
  );
  await fc.assert(
    fc.asyncProperty(id, async (last) => {
      const response = await http.app.inject({
        url: '/webhook/webhook/messages/followed',
        headers: { ...headers, accept: 'text/event-stream', 'last-event-id': last },
      });
      expect(response.statusCode).toBe(200);
      expect(response.body).toMatch(/event: done\ndata: \{.*"status":"done"/);
    }),
    { numRuns: 100 },
  );
});
