// Failed messages in the management API: listed with their error, asked again.
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ADMIN, KEY, startHttpApp, type HttpApp } from '../fakes/http-app.ts';

let http: HttpApp;
beforeAll(async () => {
  http = await startHttpApp();
});
afterAll(() => http.close());

const admin = { authorization: `Bearer ${ADMIN}` };
async function api(method: string, path: string, headers: Record<string, string> = admin) {
  const response = await fetch(http.url + path, { method, headers });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}
const send = async (id: string, text: string): Promise<Record<string, unknown>> => {
  const response = await fetch(`${http.url}/webhook/webhook`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/json',
      'idempotency-key': id,
      prefer: 'wait=10',
    },
    body: JSON.stringify({ conversation: 'c 1', text, sender: { id: 'ann' } }),
  });
  return (await response.json()) as Record<string, unknown>;
};
const failures = async () => (await api('GET', '/api/messages?state=failed')).body['items'];
const RETRY = `/api/conversations/${encodeURIComponent('webhook:c 1')}/messages/m%2F1/retry`;

test('what failed is listed with its error; asked again it is answered, and gone from the list', async () => {
  expect(await send('m0', 'all is well')).toMatchObject({ status: 'done' });
  expect(await failures()).toEqual([]);
  expect(await send('m/1', 'fail once')).toMatchObject({ status: 'failed' });
  expect(await failures()).toEqual([
    {
      id: 'm/1',
      conversation: 'webhook:c 1',
      account: 'webhook',
      sender: { id: 'ann' },
      text: 'fail once',
      run: expect.any(String),
      error: 'model_failed: no route',
      at: expect.any(Number),
    },
  ]);
  expect(await api('POST', RETRY)).toEqual({
    status: 202,
    body: { id: 'm/1', conversation: 'webhook:c 1', state: 'queued' },
  });
  await vi.waitFor(async () => {
    const { body } = await api('GET', '/webhook/webhook/messages/m%2F1', { authorization: `Bearer ${KEY}` });
    expect(body).toMatchObject({ status: 'done', reply: { text: 'You said: fail once' } });
  });
  expect(await failures()).toEqual([]);
  expect(await api('POST', RETRY)).toMatchObject({ status: 404, body: { code: 'not_found' } });
});

test.each([
  ['GET', '/api/messages', {}, 401],
  ['POST', RETRY, {}, 401],
  ['POST', RETRY, { authorization: `Bearer ${KEY}` }, 401],
  ['GET', '/api/messages?state=done', admin, 400],
  ['GET', '/api/messages?limit=0', admin, 400],
  ['POST', '/api/conversations/nowhere/messages/m1/retry', admin, 404],
])('%s %s %o: %d', async (method, path, headers, status) => {
  expect((await api(method, path, headers)).status).toBe(status);
});
