// Every route, taken from the server's own description and its pages, carries the headers that keep a browser to this server,
// whatever the answer is; and HSTS where people come by https, and only there.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADMIN, KEY, startHttpApp, type HttpApp } from '../fakes/http-app.ts';

const channels = { webhook: { type: 'webhook', api_keys: [KEY] }, web: { type: 'web' } };
const PAGES = [
  '/',
  '/console',
  '/docs',
  '/assets/console/console.js',
  '/assets/console/console.css',
  '/openapi.json',
  '/healthz',
  '/readyz',
  '/metrics',
  '/nowhere',
];

let http: HttpApp;
let https: HttpApp;
let routes: { method: string; path: string }[];
beforeAll(async () => {
  http = await startHttpApp({ channels });
  https = await startHttpApp({ channels, server: { public_url: 'https://bot.example.com' } });
  const described = await http.app.inject('/openapi.json');
  const { paths } = described.json<{ paths: Record<string, Record<string, unknown>> }>();
  routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({
      method: method.toUpperCase(),
      path: path.replaceAll(/\{\w+\}/g, 'webhook'),
    })),
  );
  routes.push(...PAGES.map((path) => ({ method: 'GET', path })));
});
afterAll(() => Promise.all([http.close(), https.close()]));

type Headers = Record<string, unknown>;
const tokens = [undefined, KEY, ADMIN];

/** Answers of every route, with and without credentials. */
async function answers(app: HttpApp['app']) {
  const all: { name: string; status: number; headers: Headers }[] = [];
  for (const { method, path } of routes)
    for (const token of tokens) {
      // These streams have no end; their headers are looked at in http-sse.test.ts.
      if (path.endsWith('/events') && method === 'GET') continue;
      const response = await app.inject({
        method: method as 'GET',
        url: path,
        ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
      });
      all.push({
        name: `${method} ${path} ${token ?? ''}`,
        status: response.statusCode,
        headers: response.headers,
      });
    }
  return all;
}

describe('every answer', () => {
  test('has a policy that lets nothing in from elsewhere, and says nothing of the server', async () => {
    const all = await answers(http.app);
    expect(all.length).toBeGreaterThan(80);
    for (const { name, headers } of all) {
      const policy = String(headers['content-security-policy']);
      expect(policy, name).toMatch(/default-src '(self|none)'/);
      expect(policy, name).toMatch(/object-src 'none'|default-src 'none'/);
      expect(policy, name).toContain("frame-ancestors 'none'");
      expect(policy, name).toContain("base-uri 'none'");
      expect(policy, name).not.toMatch(/unsafe|\*|https?:/);
      expect(headers, name).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
      for (const absent of [
        'server',
        'x-powered-by',
        'strict-transport-security',
        'access-control-allow-origin',
      ])
        expect(headers[absent], name).toBeUndefined();
    }
  });

  test('of the management API and of a conversation is kept by nobody', async () => {
    for (const { name, status, headers } of await answers(http.app))
      if (/ \/(api|web)\//.test(name) && status < 400)
        expect(headers['cache-control'], name).toBe('no-store');
  });

  test('tells a browser to come by https, where people do', async () => {
    for (const { name, headers } of await answers(https.app))
      expect(headers['strict-transport-security'], name).toMatch(/max-age=31536000/);
  });
});

test('nothing that needs credentials is open without them', async () => {
  const open = new Set([...PAGES.filter((path) => path !== '/nowhere'), '/web/session', '/console/session']);
  for (const { method, path } of routes) {
    if (open.has(path) || path.startsWith('/web/') || path === '/channels/webhook/events') continue;
    const { statusCode } = await http.app.inject({ method: method as 'GET', url: path });
    expect([401, 404], `${method} ${path}: ${statusCode}`).toContain(statusCode);
    if (path.startsWith('/api/') || path.startsWith('/v1/') || path.startsWith('/webhook/'))
      expect(statusCode, `${method} ${path}`).toBe(401);
  }
});
