// Whatever is sent, the answer is a problem with the right status, nothing is stored, and the server goes on.
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADMIN, KEY, startHttpApp, type HttpApp } from '../fakes/http-app.ts';

let http: HttpApp;
beforeAll(async () => {
  http = await startHttpApp();
});
afterAll(() => http.close());

const key = { authorization: `Bearer ${KEY}` };
const admin = { authorization: `Bearer ${ADMIN}` };
const json = { 'content-type': 'application/json' };

/** Undefined body: none. */
async function send(method: string, path: string, headers: Record<string, string>, body?: BodyInit) {
  const response = await fetch(http.url + path, { method, headers, ...(body === undefined ? {} : { body }) });
  const problem = (await response.json()) as Record<string, unknown>;
  return { status: response.status, type: response.headers.get('content-type'), problem, response };
}
const post = (body: BodyInit, headers: Record<string, string> = json) =>
  send('POST', '/webhook/webhook', { ...key, ...headers }, body);

/** Still there, and nothing got in. */
async function expectUnharmed(): Promise<void> {
  expect((await fetch(`${http.url}/healthz`)).status).toBe(200);
  const { items } = await http.storage.reader.list({ limit: 10 });
  expect(items).toEqual([]);
  expect(http.lines.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([]);
}

const body = (more: Record<string, unknown>) => JSON.stringify({ conversation: 'c', text: 't', ...more });

describe('webhook bodies', () => {
  test.each([
    ['not JSON', '{"conversation": ', 400, 'malformed_json'],
    ['not UTF-8', new Uint8Array([0x22, 0xff, 0xfe, 0x22]), 400, 'malformed_json'],
    ['nothing', '', 422, 'invalid_body'],
    ['null', 'null', 422, 'invalid_body'],
    ['a list', '[]', 422, 'invalid_body'],
    ['a string', '"hello"', 422, 'invalid_body'],
    ['no text', '{"conversation":"c"}', 422, 'invalid_body'],
    ['text that is a number', body({ text: 7 }), 422, 'invalid_body'],
    ['empty text', body({ text: ' \n' }), 422, 'invalid_body'],
    ['no conversation', '{"text":"t"}', 422, 'invalid_body'],
    ['an empty conversation', body({ conversation: '' }), 422, 'invalid_body'],
    ['a blank conversation', body({ conversation: '  ' }), 422, 'invalid_body'],
    ['a conversation that is too long', body({ conversation: 'x'.repeat(257) }), 422, 'invalid_body'],
    ['a conversation with a line break', body({ conversation: 'a\nb' }), 422, 'invalid_body'],
    ['a conversation with NUL', body({ conversation: 'a\0b' }), 422, 'invalid_body'],
    ['half a surrogate pair', '{"conversation":"a\\ud800","text":"t"}', 422, 'invalid_body'],
    ['a conversation that is an object', body({ conversation: {} }), 422, 'invalid_body'],
    ['a sender without id', body({ sender: {} }), 422, 'invalid_body'],
    ['group that is a string', body({ group: 'yes' }), 422, 'invalid_body'],
    ['a callback that is no URL', body({ callback_url: 'nowhere' }), 422, 'invalid_body'],
    ['a callback to a file', body({ callback_url: 'file:///etc/passwd' }), 422, 'invalid_body'],
    ['an attachment by data URL', body({ attachments: [{ url: 'data:,x' }] }), 422, 'invalid_body'],
    [
      '21 attachments',
      body({ attachments: Array.from({ length: 21 }, () => ({ url: 'http://a.example/' })) }),
      422,
      'invalid_body',
    ],
    ['a million brackets', '['.repeat(1_000_000), 400, 'malformed_json'],
    ['more than the account takes', body({ text: 'x'.repeat(1_048_576) }), 413, 'payload_too_large'],
    ['5 MB', body({ text: 'x'.repeat(5_000_000) }), 413, 'payload_too_large'],
  ])('%s', async (_name, sent, status, code) => {
    const got = await post(sent);
    expect(got).toMatchObject({ status, type: 'application/problem+json', problem: { status, code } });
    expect(Object.keys(got.problem)).toEqual(
      expect.arrayContaining(['type', 'title', 'status', 'detail', 'code']),
    );
    expect(JSON.stringify(got.problem).length).toBeLessThan(2_000);
    await expectUnharmed();
  });

  test('a field error says where and what', async () => {
    const { problem } = await post(body({ text: 7, sender: { id: '' } }));
    expect(problem['errors']).toEqual([
      { path: '/text', message: expect.stringContaining('string') },
      { path: '/sender/id', message: 'must not be empty' },
    ]);
    expect(problem['detail']).toMatch(/^body\/text: /);
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'nonsense',
  ])('a body that is %s is 415', async (type) => {
    const got = await post('x', { 'content-type': type });
    expect(got).toMatchObject({ status: 415, problem: { code: 'unsupported_media_type' } });
    await expectUnharmed();
  });

  test('5 MB in chunks without a length', async () => {
    const chunk = new Uint8Array(50_000).fill(0x20);
    const stream = new ReadableStream({
      start(controller) {
        for (let n = 0; n < 100; n += 1) controller.enqueue(chunk);
        controller.close();
      },
    });
    const init = { method: 'POST', headers: { ...key, ...json }, body: stream, duplex: 'half' };
    const response = await fetch(`${http.url}/webhook/webhook`, init);
    expect(response.status).toBe(413);
    await expectUnharmed();
  });

  test.each([
    ['no credentials', '/webhook/webhook', {}, 401],
    ['an unknown account', '/webhook/nobody', key, 404],
    ['another type', '/webhook/webhook', { ...key, 'content-type': 'text/plain' }, 415],
  ])('5 MB with %s still gets its answer', async (_name, path, headers, status) => {
    const response = await fetch(http.url + path, {
      method: 'POST',
      headers: { ...json, ...headers },
      body: new Uint8Array(5_000_000),
    });
    expect(response.status).toBe(status);
    await expectUnharmed();
  });

  test('ids of messages that no header should hold', async () => {
    for (const id of ['two words', 'x'.repeat(257), 'ü']) {
      const got = await post(body({}), { ...json, 'idempotency-key': id });
      expect(got).toMatchObject({ status: 400, problem: { code: 'bad_request' } });
    }
    await expectUnharmed();
  });
});

describe('other requests', () => {
  test.each([
    ['GET', '/nowhere', {}, 404, 'not_found'],
    ['POST', '/webhook/nobody', key, 404, 'unknown_account'],
    ['GET', '/webhook/webhook', key, 405, 'method_not_allowed'],
    ['DELETE', '/healthz', {}, 405, 'method_not_allowed'],
    ['GET', '/webhook/webhook/messages/x', {}, 401, 'unauthorized'],
    ['GET', '/webhook/webhook/messages/%00', key, 404, 'not_found'],
    ['GET', '/webhook/webhook/messages/%zz', key, 400, 'bad_request'],
    ['POST', '/webhook/webhook/conversations/%0A/cancel', key, 400, 'bad_request'],
    ['POST', `/webhook/webhook/conversations/${'x'.repeat(300)}/cancel`, key, 400, 'bad_request'],
    ['GET', '/api/conversations', {}, 401, 'unauthorized'],
    ['GET', '/api/conversations', key, 401, 'unauthorized'],
    ['GET', '/api/conversations?limit=0', admin, 400, 'bad_request'],
    ['GET', '/api/conversations?limit=many', admin, 400, 'bad_request'],
    ['GET', '/api/conversations/nobody%3Ax', admin, 404, 'not_found'],
    ['GET', '/api/deliveries?state=gone', admin, 400, 'bad_request'],
    ['POST', '/api/deliveries/none/retry', admin, 404, 'not_found'],
  ] as [string, string, Record<string, string>, number, string][])(
    '%s %s',
    async (method, path, headers, status, code) => {
      const got = await send(method, path, headers);
      expect(got).toMatchObject({ status, type: 'application/problem+json', problem: { status, code } });
      await expectUnharmed();
    },
  );

  test('405 names the methods that there are', async () => {
    const { response } = await send('PUT', '/webhook/webhook', key);
    expect(response.headers.get('allow')).toBe('POST');
  });

  test('bytes that are no HTTP', async () => {
    const { hostname, port } = new URL(http.url);
    const socket = connect(Number(port), hostname);
    socket.end('\x16\x03\x01 hello\r\n\r\n');
    let answer = '';
    for await (const chunk of socket) answer += String(chunk);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    await expectUnharmed();
  });

  test('a client that leaves in the middle of its body', async () => {
    const { hostname, port } = new URL(http.url);
    const socket = connect(Number(port), hostname);
    await new Promise<void>((done) => {
      const head = `POST /webhook/webhook HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\n`;
      socket.write(`${head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{"text":`, () =>
        done(),
      );
    });
    socket.destroy();
    await expectUnharmed();
  });

  test('nothing tells what the server is made of, and pages are kept to this server', async () => {
    const { headers } = await fetch(`${http.url}/healthz`);
    expect(headers.get('server')).toBeNull();
    expect(headers.get('x-powered-by')).toBeNull();
    expect(headers.get('content-security-policy')).toContain("default-src 'self'");
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('strict-transport-security')).toBeNull();
  });
});

test('an unexpected failure is 500 without its message, and logged', async () => {
  const failing = await startHttpApp({
    wrapStorage: (storage) => ({
      ...storage,
      index: {
        ...storage.index,
        remember: () => Promise.reject(new Error('the password is hush')),
      },
    }),
  });
  try {
    const response = await fetch(`${failing.url}/webhook/webhook`, {
      method: 'POST',
      headers: { ...key, ...json },
      body: body({}),
    });
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(JSON.parse(text)).toMatchObject({ code: 'internal' });
    expect(text).not.toContain('hush');
    expect(failing.lines).toMatchObject([{ level: 'error', message: 'request failed' }]);
  } finally {
    await failing.close();
  }
});
