// The chat page's routes on a real SQLite store: who may use them, messages in, the conversation and its events out.
import { readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { describe, expect, test, vi } from 'vitest';
import { createAuth, SESSION_COOKIE } from '../../src/http/auth.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { ADMIN, startHttpApp, type HttpApp, type HttpAppOptions } from '../fakes/http-app.ts';
import { readEvents, type ReadEvent } from '../fakes/sse-client.ts';

const CHAT = 'a-chat-id-of-128-bits-';
const ID = 'message-id-of-128-bits';
const BASE = `/web/web/conversations/${CHAT}`;
type Json = Record<string, unknown>;

const { track } = useCleanups();
const start = async (options: HttpAppOptions = {}): Promise<HttpApp> =>
  track(await startHttpApp({ channels: { web: { type: 'web' } }, ...options }));

/** A request with exactly these headers (fetch has a mind of its own about some of them). */
function ask(
  http: HttpApp,
  path: string,
  { body, headers = {}, method }: { body?: unknown; headers?: Record<string, string>; method?: string } = {},
): Promise<{ status: number; headers: Record<string, unknown>; body: Json; text: string }> {
  const json = body === undefined ? undefined : JSON.stringify(body);
  const type: Record<string, string> = json === undefined ? {} : { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${http.url}${path}`,
      { method: method ?? (json === undefined ? 'GET' : 'POST'), headers: { ...type, ...headers } },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () => {
          const isJson = String(response.headers['content-type']).includes('json');
          const { statusCode: status = 0 } = response;
          resolve({
            status,
            headers: response.headers,
            text,
            body: isJson ? (JSON.parse(text) as Json) : {},
          });
        });
      },
    );
    request.on('error', reject).end(json);
  });
}
const send = (http: HttpApp, text: string, id = ID, headers = {}) =>
  ask(http, `${BASE}/messages`, { body: { id, text }, headers });
const answered = (http: HttpApp, count: number) =>
  vi.waitFor(async () => {
    const { body } = await ask(http, BASE);
    expect(body).toMatchObject({ pending: 0 });
    expect(body['messages']).toHaveLength(count);
    return body;
  });

describe('the page', () => {
  test('comes with a policy that lets nothing in from elsewhere', async () => {
    const http = await start();
    const { status, headers, text } = await ask(http, '/');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    const policy = String(headers['content-security-policy']);
    expect(policy).toContain("default-src 'self'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(headers['x-content-type-options']).toBe('nosniff');
    // Nothing inline, so that the policy can be strict.
    expect(text).not.toMatch(/<style|style=|\son\w+=|<script(?![^>]*\ssrc=)/);
  });

  test('every file that it names is there, and names no other host', async () => {
    const http = await start();
    const seen = new Set<string>();
    const waiting = ['/'];
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      if (seen.has(path)) continue;
      seen.add(path);
      const { status, headers, text } = await ask(http, path);
      expect(status, path).toBe(200);
      expect(headers['cache-control'], path).toBe('no-cache');
      if (path.includes('/vendor/')) continue;
      const here = new URL(path, 'http://here');
      for (const [, name = ''] of text.matchAll(/(?:src|href|from|import)\s*[=(]?\s*["']([^"'#]+)["']/g)) {
        if (path.endsWith('.js') && !/^\.{1,2}\/.*\.js$/.test(name)) continue;
        waiting.push(new URL(name, here).pathname);
      }
      expect(text.replaceAll('http://www.w3.org/2000/svg', ''), path).not.toMatch(/https?:\/\/[a-z]/);
    }
    expect([...seen]).toContain('/assets/chat/vendor/marked.esm.js');
    expect(seen.size).toBeGreaterThan(15);
  });

  test('nothing beside the page is served', async () => {
    const http = await start();
    for (const path of ['vendor/marked.esm.d.ts', 'vendor/marked.umd.js', '..%2findex.ts', 'README.md']) {
      expect((await ask(http, `/assets/chat/${path}`)).status, path).toBe(404);
    }
  });

  test('an unchanged file is not sent again', async () => {
    const http = await start();
    const { headers } = await ask(http, '/assets/chat/app.js');
    const again = await ask(http, '/assets/chat/app.js', {
      headers: { 'if-none-match': String(headers['etag']) },
    });
    expect(again.status).toBe(304);
  });

  test('without a web account there is no page', async () => {
    const http = await start({ channels: { web: { type: 'web', enabled: false } } });
    expect((await ask(http, '/')).status).toBe(404);
    expect((await send(http, 'hello')).status).toBe(404);
  });
});

describe('messages', () => {
  test('are accepted, answered, and found in the conversation', async () => {
    const http = await start();
    const sent = await send(http, 'hello');
    expect(sent).toMatchObject({
      status: 202,
      body: { id: ID, conversation: `web:${CHAT}`, status: 'queued' },
    });
    const conversation = await answered(http, 1);
    expect(conversation).toMatchObject({ id: `web:${CHAT}`, messages: [{ role: 'user', id: ID }] });
    expect(conversation['event_id']).toEqual(expect.any(String));
  });

  test('the same id again is the same message: one run', async () => {
    const http = await start();
    const [one, two] = await Promise.all([send(http, 'hello'), send(http, 'hello')]);
    expect([one.status, two.status]).toEqual([202, 202]);
    expect(new Set([one.body['status'], two.body['status']])).toEqual(new Set(['duplicate', 'queued']));
    await answered(http, 1);
    expect((await send(http, 'hello')).body['status']).toBe('duplicate');
    expect(http.runs).toBe(1);
  });

  test('a command is answered at once', async () => {
    const http = await start();
    const { status, body } = await send(http, '/help');
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'command', reply: expect.stringContaining('/new') });
  });

  test('a run is cancelled', async () => {
    const http = await start();
    await send(http, 'hold this');
    await vi.waitFor(async () => expect((await ask(http, BASE)).body['run']).toEqual(expect.any(String)));
    const { body } = await ask(http, `${BASE}/cancel`, { body: {} });
    expect(body['cancelled']).toBe(true);
    await answered(http, 1);
    expect((await ask(http, `${BASE}/cancel`, { body: {} })).body).toEqual({ cancelled: false });
  });

  test.each([
    ['a short id', { id: 'x', text: 'hi' }],
    ['no text', { id: ID }],
    ['blank text', { id: ID, text: ' \n' }],
    ['a long text', { id: ID, text: 'x'.repeat(100_001) }],
    ['more than that', { id: ID, text: 'hi', admin: true }],
    ['a list', []],
  ])('%s: 422', async (_name, body) => {
    const http = await start();
    const answer = await ask(http, `${BASE}/messages`, { body });
    expect(answer).toMatchObject({ status: 422, body: { code: 'invalid_body' } });
    expect(http.runs).toBe(0);
  });

  test.each(['short', 'with%20space-and-more-of-it', '%E4%BD%A0'.repeat(22), 'x'.repeat(65)])(
    'a conversation id that the page did not make (%s): 400',
    async (chat) => {
      const http = await start();
      const answer = await ask(http, `/web/web/conversations/${chat}/messages`, {
        body: { id: ID, text: 'hi' },
      });
      expect(answer).toMatchObject({ status: 400, body: { code: 'bad_request' } });
    },
  );

  test('an unknown account: 404; a form: 415; too many: 429 with the time to wait', async () => {
    const http = await start({ channels: { web: { type: 'web', limits: { per_minute: 2 } } } });
    expect((await ask(http, BASE.replace('/web/web', '/web/other'))).body['code']).toBe('unknown_account');
    const form = { 'content-type': 'text/plain' };
    expect((await send(http, 'hi', ID, form)).status).toBe(415);
    expect((await send(http, 'hi')).status).toBe(202);
    expect((await send(http, 'hi')).status).toBe(202);
    const third = await send(http, 'hi');
    expect(third).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(Number(third.headers['retry-after'])).toBeGreaterThan(0);
  });
});

describe('events', () => {
  const text = (events: ReadEvent[]) =>
    events
      .filter(({ event }) => event === 'message_update')
      .map(({ data }) => (JSON.parse(data) as { delta: string }).delta)
      .join('');

  async function subscribe(http: HttpApp, after: string): Promise<AsyncGenerator<ReadEvent>> {
    const response = await fetch(`${http.url}${BASE}/events`, { headers: { 'last-event-id': after } });
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    return readEvents(response);
  }
  async function until(events: AsyncGenerator<ReadEvent>, type: string): Promise<ReadEvent[]> {
    const seen: ReadEvent[] = [];
    for (;;) {
      const { done, value } = await events.next();
      if (done) throw new Error(`the stream ended before ${type}`);
      seen.push(value);
      if (value.event === type) return seen;
    }
  }
  const eventId = async (http: HttpApp) => String((await ask(http, BASE)).body['event_id']);

  test('after the id that came with the conversation: everything since, nothing before', async () => {
    const http = await start();
    await send(http, 'first');
    await answered(http, 1);
    const after = await eventId(http);
    // What happens between loading and subscribing is not lost.
    await send(http, 'second', 'second-id-of-128-bits-');
    await answered(http, 2);
    const events = await subscribe(http, after);
    const seen = await until(events, 'agent_end');
    expect(seen[0]?.event).toBe('agent_start');
    expect(text(seen)).toBe('You said: second');
    await events.return(undefined);
  });

  test('loaded in the middle of a run: the events go back to its start', async () => {
    const http = await start();
    await send(http, 'hold this');
    await vi.waitFor(async () => expect((await ask(http, BASE)).body['run']).toEqual(expect.any(String)));
    const events = await subscribe(http, await eventId(http));
    const before = await until(events, 'message_update');
    expect(before[0]).toMatchObject({ event: 'agent_start', data: expect.stringContaining(ID) });
    http.release();
    expect(text([...before, ...(await until(events, 'agent_end'))])).toBe('You said: hold this');
    await events.return(undefined);
  });

  test('resumes after any event without loss or repetition', async () => {
    const http = await start();
    const after = await eventId(http);
    await send(http, 'hello');
    const events = await subscribe(http, after);
    const all = await until(events, 'agent_end');
    await events.return(undefined);
    for (const [index, { id = '' }] of all.slice(0, -1).entries()) {
      const resumed = await subscribe(http, id);
      expect(await until(resumed, 'agent_end')).toEqual(all.slice(index + 1));
      await resumed.return(undefined);
    }
  });

  test('an id of another life of the server: resync, and the stream goes on', async () => {
    const http = await start();
    const events = await subscribe(http, '1-1');
    expect((await until(events, 'resync'))[0]?.id).toEqual(expect.any(String));
    await send(http, 'hello');
    expect(text(await until(events, 'agent_end'))).toBe('You said: hello');
    await events.return(undefined);
  });

  test('end when the server closes', async () => {
    const http = await start();
    const events = await subscribe(http, await eventId(http));
    const ended = events.next();
    await http.app.close();
    expect((await ended).done).toBe(true);
  });
});

describe('history', () => {
  test('comes in pages, newest first', async () => {
    const http = await start();
    const ids = Array.from({ length: 65 }, (_, n) => `message-number-${String(n).padStart(7, '0')}`);
    for (const id of ids) {
      await send(http, id, id);
      await vi.waitFor(
        async () =>
          expect(await http.storage.reader.status(`web:${CHAT}`, id)).toMatchObject({ state: 'done' }),
        { interval: 5 },
      );
    }
    const { body } = await ask(http, BASE);
    const newest = body['messages'] as { id: string }[];
    expect(newest).toHaveLength(60);
    expect(newest.at(-1)?.id).toBe(ids.at(-1));
    const older = await ask(http, `${BASE}?cursor=${encodeURIComponent(String(body['cursor']))}`);
    const rest = older.body['messages'] as { id: string }[];
    expect([...rest, ...newest].map(({ id }) => id)).toEqual(ids);
    expect(older.body['cursor']).toBeUndefined();
  });
});

describe('on loopback, no key is needed', () => {
  test.each(['localhost', 'localhost:8080', '127.0.0.1:3000', '[::1]:3000', 'app.localhost:3000'])(
    'by the name %s',
    async (host) => {
      const http = await start();
      expect((await ask(http, '/web/session', { headers: { host } })).body).toEqual({
        accounts: [{ name: 'web', signed_in: true }],
      });
      expect((await send(http, 'hi', ID, { host })).status).toBe(202);
    },
  );

  test.each(['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example:3000', '10.0.0.1:3000'])(
    'but a name that others can point here (%j) is refused: DNS rebinding',
    async (host) => {
      const http = await start();
      for (const path of ['/web/session', BASE, `${BASE}/events`]) {
        expect((await ask(http, path, { headers: { host } })).body['code'], path).toBe('forbidden');
      }
      expect((await send(http, 'hi', ID, { host })).status).toBe(403);
      expect(http.runs).toBe(0);
    },
  );

  test.each([
    { origin: 'http://evil.example' },
    { origin: 'null' },
    { origin: 'http://127.0.0.1:1' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ] as Record<string, string>[])('and another page’s request is refused: %j', async (headers) => {
    const http = await start();
    expect((await send(http, 'hi', ID, headers)).body['code']).toBe('forbidden');
    expect((await ask(http, `${BASE}/cancel`, { body: {}, headers })).status).toBe(403);
    expect((await ask(http, '/web/session', { body: { key: ADMIN }, headers })).status).toBe(403);
    expect(http.runs).toBe(0);
  });
});

const beyond: [string, HttpAppOptions][] = [
  ['listening on all addresses', { server: { host: '0.0.0.0' } }],
  ['behind a proxy with a public name', { server: { public_url: 'https://chat.example' } }],
  ['with api keys set', { channels: { web: { type: 'web', api_keys: ['the-key'] } } }],
];

describe.each(beyond)('%s, a key is needed', (_name, options) => {
  test('for everything but the page itself', async () => {
    const http = await start(options);
    expect((await ask(http, '/')).status).toBe(200);
    expect((await ask(http, '/web/session')).body).toEqual({ accounts: [{ name: 'web', signed_in: false }] });
    for (const path of [BASE, `${BASE}/events`]) expect((await ask(http, path)).status, path).toBe(401);
    expect((await send(http, 'hi')).status).toBe(401);
    expect((await ask(http, `${BASE}/cancel`, { body: {} })).status).toBe(401);
  });

  test('the admin token is one; a cookie that scripts can’t read keeps it; it opens no console', async () => {
    const http = await start(options);
    expect((await ask(http, '/web/session', { body: { key: 'wrong' } })).status).toBe(401);
    const { status, headers } = await ask(http, '/web/session', { body: { key: ` ${ADMIN} ` } });
    expect(status).toBe(200);
    const [cookie = ''] = headers['set-cookie'] as string[];
    expect(cookie).toMatch(
      /^lanekeeper_web=\d+\.[\w-]+; Max-Age=\d+; Path=\/web; HttpOnly;( Secure;)? SameSite=Strict$/,
    );
    expect(cookie.includes('Secure')).toBe(JSON.stringify(options).includes('https:'));
    expect(cookie).not.toContain(ADMIN);
    const signedIn = { cookie: cookie.split(';')[0] ?? '' };
    expect((await send(http, 'hi', ID, signedIn)).status).toBe(202);
    expect((await ask(http, BASE, { headers: signedIn })).status).toBe(200);
    expect((await ask(http, '/web/session', { headers: signedIn })).body).toEqual({
      accounts: [{ name: 'web', signed_in: true }],
    });
    expect((await ask(http, '/api/conversations', { headers: signedIn })).status).toBe(401);
    // Not with the cookie from another site’s page.
    expect((await send(http, 'hi', ID, { ...signedIn, origin: 'http://evil.example' })).status).toBe(403);
  });
});

describe('the cookie', () => {
  const channels = {
    web: { type: 'web', api_keys: ['key-one', 'key-two'] },
    second: { type: 'web', api_keys: ['key-three'] },
  };
  async function cookieOf(http: HttpApp, key: string): Promise<string> {
    const { headers } = await ask(http, '/web/session', { body: { key } });
    return (headers['set-cookie'] as string[])[0]?.split(';')[0] ?? '';
  }
  const statusWith = async (http: HttpApp, cookie: string, path = BASE) =>
    (await ask(http, path, { headers: { cookie } })).status;

  test('opens the accounts of its key', async () => {
    const http = await start({ channels });
    const cookie = await cookieOf(http, 'key-two');
    expect(await statusWith(http, cookie)).toBe(200);
    expect(await statusWith(http, cookie, BASE.replace('/web/web', '/web/second'))).toBe(401);
    expect((await ask(http, '/web/session', { headers: { cookie } })).body).toEqual({
      accounts: [
        { name: 'web', signed_in: true },
        { name: 'second', signed_in: false },
      ],
    });
  });

  test('outlives a restart, and ends when its key is taken away or 30 days are over', async () => {
    const first = await start({ channels });
    const cookie = await cookieOf(first, 'key-two');
    await first.close();
    const second = await start({ channels });
    expect(await statusWith(second, cookie)).toBe(200);
    second.now = Date.now() + 31 * 24 * 3_600_000;
    expect(await statusWith(second, cookie)).toBe(401);
    await second.close();
    const third = await start({ channels: { web: { type: 'web', api_keys: ['key-one'] } } });
    expect(await statusWith(third, cookie)).toBe(401);
  });

  test.each(['', '.', 'x.y', '99999999999.', `99999999999.${'A'.repeat(43)}`, '99999999999'])(
    'made up (%j) opens nothing',
    async (value) => {
      const http = await start({ channels });
      expect(await statusWith(http, `lanekeeper_web=${value}`)).toBe(401);
    },
  );

  test('keys can’t be guessed quickly', async () => {
    const http = await start({ channels });
    const tries = [];
    for (let n = 0; n < 12; n++)
      tries.push((await ask(http, '/web/session', { body: { key: `guess ${n}` } })).status);
    expect(tries.slice(0, 10)).toEqual(Array.from({ length: 10 }, () => 401));
    expect(tries.slice(10)).toEqual([429, 429]);
    expect((await ask(http, '/web/session', { body: { key: 'key-one' } })).status).toBe(429);
  });

  test('who is signed in at the console needs no second key; a script sends its own', async () => {
    const http = await start({ channels });
    const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
    expect((await ask(http, BASE, { headers: bearer('key-one') })).status).toBe(200);
    expect((await ask(http, BASE, { headers: bearer(ADMIN) })).status).toBe(200);
    expect((await ask(http, BASE, { headers: bearer('key-three') })).status).toBe(401);
    const console = createAuth({ adminToken: ADMIN, apiKeys: new Map(), now: Date.now });
    expect(await statusWith(http, `${SESSION_COOKIE}=${console.newSession()}`)).toBe(200);
    expect(await statusWith(http, `${SESSION_COOKIE}=${console.newSession()}x`)).toBe(401);
  });

  test('keys and cookies are not in the log', async () => {
    const http = await start({ channels });
    const cookie = await cookieOf(http, 'key-one');
    await statusWith(http, `${cookie}x`);
    await ask(http, '/web/session', { body: { key: 'guess' } });
    expect(JSON.stringify(http.lines)).not.toMatch(/key-one|guess|lanekeeper_web=/);
  });
});

test('both languages of the page say everything', async () => {
  const source = await readFile(new URL('../../channels/web/page/strings.js', import.meta.url), 'utf8');
  const html = await readFile(new URL('../../channels/web/page/index.html', import.meta.url), 'utf8');
  const keys = (name: string) =>
    [
      ...(new RegExp(`const ${name} = \\{(.*?)\\n\\};`, 's').exec(source)?.[1] ?? '').matchAll(
        /^ {2}(\w+):/gm,
      ),
    ].map(([, key]) => key);
  expect(keys('en').length).toBeGreaterThan(50);
  expect(keys('zh')).toEqual(keys('en'));
  for (const [, key] of html.matchAll(/data-t(?:-\w+)?="(\w+)"/g)) expect(keys('en')).toContain(key);
});
