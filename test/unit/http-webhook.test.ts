// The webhook's routes on a real SQLite store: credentials, duplicates, waiting, events, status, cancel, limits.
import { Webhook } from 'standardwebhooks';
import { describe, expect, test, vi } from 'vitest';
import { AppError } from '../../src/domain/errors.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { ADMIN, KEY, SECRET, startHttpApp, type HttpApp, type HttpAppOptions } from '../fakes/http-app.ts';
import { readEvents, type ReadEvent } from '../fakes/sse-client.ts';

const { track } = useCleanups();
const start = async (options?: HttpAppOptions): Promise<HttpApp> => track(await startHttpApp(options));

type Json = Record<string, unknown>;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

async function post(http: HttpApp, body: unknown, headers: Record<string, string> = bearer(KEY)) {
  const response = await fetch(`${http.url}/webhook/webhook`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Json };
}

function signed(body: string, options: { secret?: string; id?: string; at?: Date } = {}) {
  const { secret = SECRET, id = 'evt_1', at = new Date() } = options;
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(id, at, body),
  };
}

const wait = { ...bearer(KEY), prefer: 'wait=10' };
const hello = { conversation: 'c1', text: 'hello' };

describe('credentials', () => {
  const text = JSON.stringify(hello);

  test('a signature by the npm package is accepted', async () => {
    const http = await start();
    const { status, body } = await post(http, text, signed(text));
    expect(status).toBe(202);
    expect(body).toMatchObject({ id: 'evt_1', conversation: 'webhook:c1', status: 'queued' });
  });

  test('each secret of a rotation is accepted, and one good signature among several is enough', async () => {
    const other = `whsec_${Buffer.from('another secret of thirty-two byt').toString('base64')}`;
    const http = await start({ channels: { webhook: { type: 'webhook', secret: [SECRET, other] } } });
    expect((await post(http, text, signed(text, { secret: other }))).status).toBe(202);
    const headers = signed(text, { id: 'evt_2' });
    headers['webhook-signature'] = `v1,AAAA v2,BBBB ${headers['webhook-signature']}`;
    expect((await post(http, text, headers)).status).toBe(202);
  });

  test.each([
    [
      'another secret',
      () => signed(text, { secret: `whsec_${Buffer.alloc(32).toString('base64')}` }),
      'signature_invalid',
    ],
    ['another body', () => signed(`${text} `), 'signature_invalid'],
    ['six minutes ago', () => signed(text, { at: new Date(Date.now() - 6 * 60_000) }), 'signature_expired'],
    ['six minutes ahead', () => signed(text, { at: new Date(Date.now() + 6 * 60_000) }), 'signature_expired'],
    ['no timestamp', () => ({ ...signed(text), 'webhook-timestamp': '' }), 'signature_invalid'],
    [
      'a timestamp that is none',
      () => ({ ...signed(text), 'webhook-timestamp': 'now' }),
      'signature_invalid',
    ],
    [
      'no signature in the header',
      () => ({ ...signed(text), 'webhook-signature': 'v1' }),
      'signature_invalid',
    ],
    ['nothing at all', () => ({}), 'unauthorized'],
    ['a wrong key', () => bearer('wrong'), 'unauthorized'],
    ['another scheme', () => ({ authorization: 'Basic dTpw' }), 'unauthorized'],
    ['a wrong key beside a good signature', () => ({ ...signed(text), ...bearer('wrong') }), 'unauthorized'],
  ] as [string, () => Record<string, string>, string][])('%s: 401', async (_name, headers, code) => {
    const http = await start();
    const response = await post(http, text, headers());
    expect(response).toMatchObject({ status: 401, body: { code, status: 401 } });
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(response.headers.get('www-authenticate')).toMatch(/^Bearer/);
    expect((await http.storage.reader.state('webhook:c1')).pending).toBe(0);
  });

  test('a signature is checked before the body is parsed', async () => {
    const http = await start();
    const bad = await post(http, '{"not json', signed('{}'));
    expect(bad.body).toMatchObject({ code: 'signature_invalid' });
    const good = await post(http, '{"not json', signed('{"not json'));
    expect(good).toMatchObject({ status: 400, body: { code: 'malformed_json' } });
  });

  test('an account without secret and keys takes the admin token only, and says what to set', async () => {
    const http = await start({ channels: { webhook: { type: 'webhook' } } });
    const none = await post(http, hello, {});
    expect(none).toMatchObject({ status: 401, body: { code: 'unauthorized' } });
    expect(none.body['detail']).toContain('channels.webhook.secret');
    expect((await post(http, text, signed(text))).status).toBe(401);
    expect((await post(http, hello, bearer(''))).status).toBe(401);
    expect((await post(http, hello, bearer(ADMIN))).status).toBe(202);
  });

  test("one account's key is no key of another", async () => {
    const http = await start({
      channels: {
        webhook: { type: 'webhook', api_keys: ['one'] },
        second: { type: 'webhook', api_keys: ['two'] },
      },
    });
    expect((await post(http, hello, bearer('two'))).status).toBe(401);
    expect((await post(http, hello, bearer('one'))).status).toBe(202);
  });

  test('unknown, disabled and other channels’ accounts are 404', async () => {
    const http = await start({
      channels: { off: { type: 'webhook', enabled: false, api_keys: [KEY] }, web: { type: 'web' } },
    });
    for (const account of ['nobody', 'off', 'web', '__proto__']) {
      const response = await fetch(`${http.url}/webhook/${account}`, {
        method: 'POST',
        headers: bearer(ADMIN),
      });
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ code: 'unknown_account' });
    }
  });
});

describe('answers', () => {
  test('202 at once, and the status route tells what becomes of it', async () => {
    const http = await start();
    const { status, headers, body } = await post(http, { conversation: 'c1', text: 'hold on' });
    expect(status).toBe(202);
    expect(body['id']).toMatch(/^msg_/);
    const location = headers.get('location') ?? '';
    expect(location).toBe(`/webhook/webhook/messages/${String(body['id'])}`);
    const read = async () =>
      (await (await fetch(http.url + location, { headers: bearer(KEY) })).json()) as Json;
    await vi.waitFor(async () => expect(await read()).toMatchObject({ id: body['id'], status: 'running' }));
    http.release();
    await vi.waitFor(async () =>
      expect(await read()).toMatchObject({ status: 'done', reply: { text: 'You said: hold on' } }),
    );
    expect((await fetch(http.url + location)).status).toBe(401);
    expect((await fetch(`${http.url}/webhook/webhook/messages/nope`, { headers: bearer(KEY) })).status).toBe(
      404,
    );
  });

  test('Prefer: wait gives the answer in the response', async () => {
    const http = await start();
    const { status, headers, body } = await post(http, hello, wait);
    expect(status).toBe(200);
    expect(headers.get('preference-applied')).toBe('wait=10');
    expect(headers.get('location')).toContain('/webhook/webhook/messages/');
    expect(body).toMatchObject({
      conversation: 'webhook:c1',
      status: 'done',
      reply: { text: 'You said: hello' },
    });
  });

  test('Prefer: wait that is not enough gives 202, and the message is answered all the same', async () => {
    const http = await start();
    const { status, body } = await post(
      http,
      { conversation: 'c1', text: 'hold' },
      { ...wait, prefer: 'wait=1' },
    );
    expect(status).toBe(202);
    expect(body['status']).toBe('queued');
    http.release();
    await vi.waitFor(async () =>
      expect(await http.storage.reader.status('webhook:c1', String(body['id']))).toMatchObject({
        state: 'done',
      }),
    );
  });

  test('a run that failed is 200 with status failed and the sentence for the user', async () => {
    const http = await start();
    const { status, body } = await post(http, { conversation: 'c1', text: 'fail' }, wait);
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'failed', reply: { text: 'Sorry, that failed.' } });
  });

  test('messages that share a run share its answer', async () => {
    const http = await start();
    const first = post(http, { conversation: 'c1', text: 'hold first' }, wait);
    await vi.waitFor(() => expect(http.runs).toBe(1));
    const second = post(http, { conversation: 'c1', text: 'second' }, wait);
    await vi.waitFor(async () => expect((await http.storage.reader.state('webhook:c1')).pending).toBe(2));
    http.release();
    const [one, two] = await Promise.all([first, second]);
    expect(one.body).toMatchObject({ status: 'done', reply: { text: 'You said: hold first | second' } });
    expect(two.body['reply']).toEqual(one.body['reply']);
    expect(http.runs).toBe(1);
  });

  test('a waiting request is let go when the app closes', async () => {
    const http = await start();
    const waiting = post(http, { conversation: 'c1', text: 'hold' }, wait);
    await vi.waitFor(() => expect(http.runs).toBe(1));
    await http.app.close();
    expect((await waiting).status).toBe(202);
  });

  test('a command is answered at once, and its repetition with the same words', async () => {
    const http = await start();
    await post(http, hello, wait);
    const headers = { ...bearer(KEY), 'idempotency-key': 'cmd-1' };
    const first = await post(http, { conversation: 'c1', text: '/new' }, headers);
    expect(first).toMatchObject({ status: 200, body: { id: 'cmd-1', status: 'done' } });
    await post(http, { conversation: 'c1', text: 'kept' }, wait);
    const again = await post(http, { conversation: 'c1', text: '/new' }, headers);
    expect(again.body).toEqual(first.body);
    // The history that came after the first one is still there.
    expect((await http.storage.reader.state('webhook:c1')).length).toBe(1);
  });

  test('a group message that does not address the bot is ignored, and said to be', async () => {
    const http = await start();
    const { status, body } = await post(http, { ...hello, group: true });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'ignored' });
    expect((await post(http, { ...hello, group: true, mentioned: true }, wait)).body['status']).toBe('done');
  });
});

describe('duplicates', () => {
  test.each(['idempotency-key', 'webhook-id'])(
    'the same %s runs once and gets the same answer',
    async (header) => {
      const http = await start();
      const headers = { ...wait, [header]: 'order-7' };
      const first = await post(http, hello, headers);
      const again = await post(http, hello, headers);
      expect(first.body).toMatchObject({ id: 'order-7', status: 'done' });
      expect(again.body).toEqual(first.body);
      expect(http.runs).toBe(1);
      // Other white space and order of keys is the same body.
      const same = await post(http, `{ "text": "hello",  "conversation":"c1" }`, headers);
      expect(same.body).toEqual(first.body);
    },
  );

  test('ten at once run once', async () => {
    const http = await start();
    const headers = { ...wait, 'idempotency-key': 'burst' };
    const answers = await Promise.all(Array.from({ length: 10 }, () => post(http, hello, headers)));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(http.runs).toBe(1);
  });

  test.each([
    ['text', { ...hello, text: 'other' }],
    ['conversation', { ...hello, conversation: 'c2' }],
    ['callback', { ...hello, callback_url: 'http://127.0.0.1:9/x' }],
  ])('the same id with another %s is 422', async (_what, body) => {
    const http = await start();
    const headers = { ...bearer(KEY), 'idempotency-key': 'k' };
    await post(http, hello, headers);
    const response = await post(http, body, headers);
    expect(response).toMatchObject({ status: 422, body: { code: 'idempotency_mismatch' } });
  });

  test('a quoted Idempotency-Key is the same as a bare one', async () => {
    const http = await start();
    const first = await post(http, hello, { ...wait, 'idempotency-key': '"k"' });
    expect(first.body['id']).toBe('k');
    expect((await post(http, hello, { ...wait, 'idempotency-key': 'k' })).body).toEqual(first.body);
  });
});

describe('events', () => {
  const events = { ...bearer(KEY), accept: 'text/event-stream' };
  const send = (http: HttpApp, body: unknown, headers: Record<string, string> = {}) =>
    fetch(`${http.url}/webhook/webhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...events, ...headers },
      body: JSON.stringify(body),
    });
  const all = async (response: Response): Promise<ReadEvent[]> => {
    const read: ReadEvent[] = [];
    for await (const event of readEvents(response)) read.push(event);
    return read;
  };
  const textOf = (read: ReadEvent[]) =>
    read
      .filter(({ event }) => event === 'message_update')
      .map(({ data }) => (JSON.parse(data) as { delta: string }).delta)
      .join('');

  test('the run from its start to its answer', async () => {
    const http = await start();
    const response = await send(http, hello);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    expect(response.headers.get('x-accel-buffering')).toBe('no');
    const read = await all(response);
    expect(read.map(({ event }) => event)).toEqual([
      'queued',
      'agent_start',
      'message_start',
      'message_update',
      'message_update',
      'agent_end',
      'done',
    ]);
    expect(textOf(read)).toBe('You said: hello');
    const done = JSON.parse(read.at(-1)?.data ?? '') as Json;
    const status = await fetch(http.url + (response.headers.get('location') ?? ''), { headers: bearer(KEY) });
    expect(done).toEqual(await status.json());
  });

  test.each(['post', 'status route'])(
    'a connection that drops is resumed by %s without loss or repetition',
    async (how) => {
      const http = await start();
      const key = { 'idempotency-key': 'm1' };
      const first = await send(http, { conversation: 'c1', text: 'hold' }, key);
      const before: ReadEvent[] = [];
      for await (const event of readEvents(first)) {
        before.push(event);
        if (event.event === 'message_update') break;
      }
      http.release();
      await vi.waitFor(async () =>
        expect(await http.storage.reader.status('webhook:c1', 'm1')).toMatchObject({ state: 'done' }),
      );
      const last = { 'last-event-id': before.at(-1)?.id ?? '' };
      const second =
        how === 'post'
          ? await send(http, { conversation: 'c1', text: 'hold' }, { ...key, ...last })
          : await fetch(`${http.url}/webhook/webhook/messages/m1`, { headers: { ...events, ...last } });
      const after = await all(second);
      expect(textOf([...before, ...after])).toBe('You said: hold');
      const ids = [...before, ...after].flatMap(({ id }) => (id === undefined ? [] : [id]));
      expect(new Set(ids).size).toBe(ids.length);
      expect(after.at(-1)).toMatchObject({ event: 'done' });
      expect(http.runs).toBe(1);
    },
  );

  test('the answer comes even if the event log knows nothing any more', async () => {
    const http = await start();
    await post(http, hello, { ...wait, 'idempotency-key': 'old' });
    const gone = await send(http, hello, { 'idempotency-key': 'old', 'last-event-id': '17-4' });
    expect((await all(gone)).at(-1)).toMatchObject({ event: 'done' });
    const plain = await send(http, hello, { 'idempotency-key': 'old' });
    expect((await all(plain)).map(({ event }) => event)).toEqual(['queued', 'done']);
  });

  test('a message that joins a run gets its events from there on', async () => {
    const http = await start();
    const first = send(http, { conversation: 'c1', text: 'hold' });
    await vi.waitFor(() => expect(http.runs).toBe(1));
    const second = send(http, { conversation: 'c1', text: 'and this' });
    await vi.waitFor(async () => expect((await http.storage.reader.state('webhook:c1')).pending).toBe(2));
    http.release();
    const [one, two] = await Promise.all([all(await first), all(await second)]);
    expect(two.map(({ event }) => event).slice(0, 2)).toEqual(['queued', 'steered']);
    expect(JSON.parse(two.at(-1)?.data ?? '')).toMatchObject({
      reply: JSON.parse(one.at(-1)?.data ?? '').reply,
    });
  });

  test('events of other runs stay out', async () => {
    const http = await start();
    const other = post(http, { conversation: 'c1', text: 'hold', group: true, mentioned: true }, wait);
    await vi.waitFor(() => expect(http.runs).toBe(1));
    const mine = send(http, { conversation: 'c1', text: 'mine', group: true, mentioned: true });
    await vi.waitFor(async () => expect((await http.storage.reader.state('webhook:c1')).pending).toBe(2));
    http.release();
    await other;
    const read = await all(await mine);
    const runs = new Set(read.slice(1, -1).map(({ data }) => (JSON.parse(data) as { run: string }).run));
    expect(runs.size).toBe(1);
    expect(JSON.parse(read.at(-1)?.data ?? '')).toMatchObject({ reply: { text: 'You said: mine' } });
  });

  test('an open stream does not hold up the close', async () => {
    const http = await start();
    const response = await send(http, { conversation: 'c1', text: 'hold' });
    await vi.waitFor(() => expect(http.runs).toBe(1));
    const reading = all(response);
    await http.app.close();
    expect((await reading).at(-1)?.event).not.toBe('done');
  });
});

describe('conversations', () => {
  const odd = [
    'a:b:c',
    'with spaces',
    '{x}',
    '会话/一',
    '🦊🦊',
    'a%2Fb',
    '..',
    '?&#',
    'x'.repeat(256),
    '🦊'.repeat(256),
  ].map((id) => [id.slice(0, 20), id] as const);
  test.each(odd)('odd id %s works in body and path', async (_name, conversation) => {
    const http = await start();
    const done = await post(http, { conversation, text: 'hi' }, wait);
    expect(done.body).toMatchObject({ conversation: `webhook:${conversation}`, status: 'done' });
    await post(http, { conversation, text: 'hold' });
    await vi.waitFor(() => expect(http.runs).toBe(2));
    // URLs resolve `..` in whatever notation; the full id gets through.
    const inPath = encodeURIComponent(conversation === '..' ? 'webhook:..' : conversation);
    const response = await fetch(`${http.url}/webhook/webhook/conversations/${inPath}/cancel`, {
      method: 'POST',
      headers: bearer(KEY),
    });
    expect(await response.json()).toMatchObject({ conversation: `webhook:${conversation}`, cancelled: true });
  });

  test('the full id that answers carry is understood in body and path', async () => {
    const http = await start();
    await post(http, hello, wait);
    const { body } = await post(http, { conversation: 'webhook:c1', text: 'hold' });
    expect(body['conversation']).toBe('webhook:c1');
    await vi.waitFor(() => expect(http.runs).toBe(2));
    const path = '/webhook/webhook/conversations/webhook%3Ac1/cancel';
    const response = await fetch(http.url + path, { method: 'POST', headers: bearer(KEY) });
    expect(await response.json()).toMatchObject({ conversation: 'webhook:c1', cancelled: true });
  });

  test('cancelling nothing is no error', async () => {
    const http = await start();
    const path = '/webhook/webhook/conversations/c1/cancel';
    const response = await fetch(http.url + path, { method: 'POST', headers: bearer(KEY) });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ conversation: 'webhook:c1', cancelled: false });
  });
});

describe('refusals', () => {
  test('per-account rate limit: 429 with Retry-After, and the other account is not touched', async () => {
    const http = await start({
      channels: {
        webhook: { type: 'webhook', api_keys: [KEY], limits: { per_minute: 3 } },
        other: { type: 'webhook', api_keys: [KEY], limits: { per_minute: 3 } },
      },
    });
    http.now = 1_000_000;
    for (let n = 0; n < 3; n += 1) expect((await post(http, hello)).status).toBe(202);
    const refused = await post(http, hello);
    expect(refused).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(refused.headers.get('retry-after')).toBe('20');
    const other = await fetch(`${http.url}/webhook/other`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...bearer(KEY) },
      body: JSON.stringify(hello),
    });
    expect(other.status).toBe(202);
    http.now += 20_000;
    expect((await post(http, hello)).status).toBe(202);
  });

  test('draining: 503 with Retry-After', async () => {
    const http = await start();
    http.draining = true;
    const refused = await post(http, hello);
    expect(refused).toMatchObject({ status: 503, body: { code: 'draining' } });
    expect(refused.headers.get('retry-after')).toBe('5');
  });

  test.each([
    ['index', 'index'],
    ['store', 'store'],
  ] as const)('storage down in the %s: 503, never 202', async (_name, port) => {
    let down = false;
    const http = await start({
      wrapStorage: (storage) => ({
        ...storage,
        [port]: new Proxy(storage[port], {
          get: (target, name) => {
            if (down) throw new AppError('storage_unavailable', 'The storage does not answer.');
            return Reflect.get(target, name) as unknown;
          },
        }),
      }),
    });
    down = true;
    for (const headers of [bearer(KEY), wait, { ...bearer(KEY), accept: 'text/event-stream' }]) {
      const refused = await post(http, hello, { ...headers, 'idempotency-key': 'k' });
      expect(refused).toMatchObject({ status: 503, body: { code: 'storage_unavailable' } });
      expect(refused.headers.get('retry-after')).toBe('5');
    }
    down = false;
    expect((await post(http, hello, { ...wait, 'idempotency-key': 'k' })).body).toMatchObject({
      status: 'done',
    });
    expect(http.runs).toBe(1);
  });

  test.each([
    'http://127.0.0.1/x',
    'http://[::1]/',
    'http://0x7f.1/',
    'http://169.254.169.254/',
    'http://localhost:80/',
  ])('callback to %s is refused', async (callback_url) => {
    const http = await start({ channels: { webhook: { type: 'webhook', api_keys: [KEY] } } });
    const refused = await post(http, { ...hello, callback_url });
    expect(refused).toMatchObject({ status: 422, body: { code: 'callback_refused' } });
  });
});
