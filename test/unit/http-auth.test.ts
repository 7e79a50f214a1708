// The console's session: made with the admin token only, sealed, ending, and no use to other pages.
import { afterEach, describe, expect, test } from 'vitest';
import { createAuth, SESSION_SECONDS } from '../../src/http/auth.ts';
import { waitSeconds } from '../../src/http/prefer.ts';
import { ADMIN, startHttpApp, type HttpApp } from '../fakes/http-app.ts';

let http: HttpApp | undefined;
afterEach(async () => {
  await http?.close();
  http = undefined;
});

const signIn = (url: string, token: string, headers: Record<string, string> = {}) =>
  fetch(`${url}/console/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ token }),
  });

describe('the session cookie', () => {
  test('is HttpOnly and strict, and opens the management API', async () => {
    http = await startHttpApp();
    expect((await signIn(http.url, 'wrong')).status).toBe(401);
    const response = await signIn(http.url, ADMIN);
    const [cookie = ''] = response.headers.getSetCookie();
    expect(cookie).toMatch(/; HttpOnly/);
    expect(cookie).toMatch(/; SameSite=Strict/);
    expect(cookie).not.toMatch(/; Secure/);
    const session = { cookie: cookie.split(';')[0] ?? '' };
    expect((await fetch(`${http.url}/api/channels`, { headers: session })).status).toBe(200);
    const altered = { cookie: `${session.cookie.slice(0, -2)}xx` };
    expect((await fetch(`${http.url}/api/channels`, { headers: altered })).status).toBe(401);
    http.now = Date.now() + SESSION_SECONDS * 1000 + 1;
    expect((await fetch(`${http.url}/api/channels`, { headers: session })).status).toBe(401);
  });

  test('is Secure where people come by https', async () => {
    http = await startHttpApp({ server: { public_url: 'https://bot.example.com' } });
    const response = await signIn(http.url, ADMIN);
    expect(response.headers.getSetCookie()[0]).toMatch(/; Secure/);
    expect(response.headers.get('strict-transport-security')).toContain('max-age');
  });

  test('changes nothing for a page of another origin, not even of another port', async () => {
    http = await startHttpApp();
    const [cookie = ''] = (await signIn(http.url, ADMIN)).headers.getSetCookie();
    const session = { cookie: cookie.split(';')[0] ?? '' };
    const reset = (headers: Record<string, string>) =>
      fetch(`${http?.url}/api/conversations/webhook%3Ac/reset`, {
        method: 'POST',
        headers: { ...session, ...headers },
      });
    expect((await reset({ origin: 'http://127.0.0.1:1' })).status).toBe(403);
    expect((await reset({ 'sec-fetch-site': 'same-site' })).status).toBe(403);
    expect((await reset({ origin: http.url, 'sec-fetch-site': 'same-origin' })).status).toBe(200);
    expect((await signIn(http.url, ADMIN, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
  });

  test('cannot be guessed at leisure', async () => {
    http = await startHttpApp();
    http.now = 1_000_000;
    for (let n = 0; n < 10; n += 1) expect((await signIn(http.url, `guess ${n}`)).status).toBe(401);
    const refused = await signIn(http.url, ADMIN);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('of one admin token is none of another, and none at all without one', () => {
    const auth = (adminToken: string) => createAuth({ adminToken, apiKeys: new Map(), now: () => 0 });
    const session = auth('one').newSession();
    expect(auth('one').isSession(session)).toBe(true);
    expect(auth('two').isSession(session)).toBe(false);
    expect(auth('').isSession(auth('').newSession())).toBe(false);
    for (const odd of ['', '.', 'x', `${session}.`.repeat(2), session.replace(/^\d+/, '9999999999')])
      expect(auth('one').isSession(odd)).toBe(odd.startsWith(session));
  });
});

test('api keys: empty ones open nothing, each opens its own account', () => {
  const apiKeys = new Map([
    ['first', ['', 'a']],
    ['second', ['b', 'c']],
  ]);
  const auth = createAuth({ adminToken: 'admin', apiKeys, now: () => 0 });
  expect(auth.mayUse('first', '')).toBe(false);
  expect(auth.mayUse('first', 'a')).toBe(true);
  expect(auth.mayUse('first', 'b')).toBe(false);
  expect(auth.mayUse('nobody', 'a')).toBe(false);
  expect(['a', 'b', 'c', 'admin', '', 'x'].map((key) => auth.accountOf(key))).toEqual([
    'first',
    'second',
    'second',
    'first',
    undefined,
    undefined,
  ]);
});

test.each([
  [undefined, 0],
  ['', 0],
  ['wait=10', 10],
  ['respond-async', 0],
  ['respond-async, wait=10', 10],
  ['WAIT = "7" ; x=1, return=minimal', 7],
  ['wait=99999', 300],
  ['wait=-1', 0],
  ['wait=soon', 0],
  ['handling=lenient,wait=3', 3],
  ['await=3', 0],
])('Prefer: %s waits %i seconds', (header, seconds) => {
  expect(waitSeconds(header)).toBe(seconds);
});
