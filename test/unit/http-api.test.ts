// The management API and what surrounds it: health, metrics, description.
import { describe, expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { ADMIN, KEY, startHttpApp, type HttpApp } from '../fakes/http-app.ts';

const { track } = useCleanups();
const start = async (...options: Parameters<typeof startHttpApp>): Promise<HttpApp> =>
  track(await startHttpApp(...options));

type Json = Record<string, unknown>;
const admin = { authorization: `Bearer ${ADMIN}` };

async function call(http: HttpApp, path: string, init: RequestInit = {}) {
  const response = await fetch(`${http.url}/api${path}`, { headers: admin, ...init });
  return { status: response.status, body: (await response.json()) as Json };
}
const post = (http: HttpApp, path: string) => call(http, path, { method: 'POST' });

async function say(http: HttpApp, text: string, more: Json = {}, wait = 'wait=10'): Promise<Json> {
  const response = await fetch(`${http.url}/webhook/webhook`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', prefer: wait },
    body: JSON.stringify({ conversation: 'c 1/2', text, ...more }),
  });
  return (await response.json()) as Json;
}
const ID = 'webhook:c 1/2';
const PATH = `/conversations/${encodeURIComponent(ID)}`;

describe('conversations', () => {
  test('are listed by activity, page by page', async () => {
    const http = await start();
    for (const conversation of ['a', 'b', 'c']) await say(http, 'hi', { conversation });
    const first = await call(http, '/conversations?limit=2');
    const items = first.body['items'] as { id: string }[];
    expect(items.map(({ id }) => id)).toEqual(['webhook:c', 'webhook:b']);
    const second = await call(
      http,
      `/conversations?limit=2&cursor=${encodeURIComponent(String(first.body['cursor']))}`,
    );
    expect(second.body).toMatchObject({ items: [{ id: 'webhook:a' }] });
    expect(second.body['cursor']).toBeUndefined();
  });

  test('one is shown with its history, oldest first, and pages go back in time', async () => {
    const http = await start();
    for (const text of ['one', 'two', 'three']) await say(http, text);
    const texts = (body: Json) =>
      (body['messages'] as { content: { text: string }[] }[]).map(({ content }) => content[0]?.text);
    const { body } = await call(http, PATH);
    expect(body).toMatchObject({ id: ID, pending: 0 });
    expect(texts(body)).toEqual(['one', 'two', 'three']);
    const newest = await call(http, `${PATH}?limit=2`);
    expect(texts(newest.body)).toEqual(['two', 'three']);
    const older = await call(
      http,
      `${PATH}?limit=2&cursor=${encodeURIComponent(String(newest.body['cursor']))}`,
    );
    expect(texts(older.body)).toEqual(['one']);
  });

  test('cancel and reset', async () => {
    const http = await start();
    await say(http, 'one');
    const waiting = say(http, 'hold');
    await vi.waitFor(() => expect(http.runs).toBe(2));
    const { body } = await call(http, PATH);
    expect(body).toMatchObject({ pending: 1, run: expect.any(String) });
    expect((await post(http, `${PATH}/cancel`)).body).toEqual({ id: ID, cancelled: true, run: body['run'] });
    expect(await waiting).toMatchObject({ reply: { text: 'Cancelled.' } });
    expect((await post(http, `${PATH}/cancel`)).body).toEqual({ id: ID, cancelled: false });
    expect((await post(http, `${PATH}/reset`)).body).toEqual({ id: ID, reset: true });
    expect((await call(http, PATH)).body).toMatchObject({ messages: [], pending: 0 });
  });
});

describe('deliveries', () => {
  test('parked ones are listed without their address, and retried', async () => {
    const http = await start();
    const callback_url = 'http://127.0.0.1:9/hook?token=hush';
    await say(http, 'hi', { callback_url });
    const { outbox } = http.storage;
    const claim = await outbox.claim(ID, 60_000);
    if (claim.status !== 'claimed') throw new Error(claim.status);
    await outbox.park(claim.lease, 'the receiver answered 410 Gone');
    const { body } = await call(http, '/deliveries?state=parked');
    expect(body).toMatchObject({
      items: [
        { id: claim.delivery.id, conversation: ID, state: 'parked', error: 'the receiver answered 410 Gone' },
      ],
    });
    expect(JSON.stringify(body)).not.toContain('hush');
    expect((await call(http, '/deliveries?state=pending')).body).toEqual({ items: [] });
    const retried = await post(http, `/deliveries/${claim.delivery.id}/retry`);
    expect(retried).toEqual({
      status: 202,
      body: { id: claim.delivery.id, conversation: ID, state: 'pending' },
    });
    expect(http.woken).toEqual([ID]);
    expect((await call(http, '/deliveries?state=parked')).body).toEqual({ items: [] });
    expect((await post(http, `/deliveries/${claim.delivery.id}/retry`)).status).toBe(404);
  });
});

test('channels are listed with their states', async () => {
  const http = await start();
  expect((await call(http, '/channels')).body).toEqual({
    items: [{ account: 'webhook', type: 'webhook', state: 'stopped' }],
  });
});

test('without an admin token nobody is the administrator', async () => {
  const http = await start({ adminToken: '' });
  for (const token of ['', 'x', ADMIN]) {
    const response = await fetch(`${http.url}/api/channels`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(response.status).toBe(401);
  }
});

describe('health', () => {
  test('alive, ready, and not ready with the reasons', async () => {
    const http = await start();
    expect((await fetch(`${http.url}/healthz`)).status).toBe(200);
    expect((await fetch(`${http.url}/readyz`)).status).toBe(200);
    http.reasons = ['storage: Redis is away'];
    const response = await fetch(`${http.url}/readyz`);
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual({ status: 'not ready', reasons: ['storage: Redis is away'] });
    expect((await fetch(`${http.url}/healthz`)).status).toBe(200);
    expect(await (await fetch(`${http.url}/metrics`)).text()).toContain('up 1');
  });
});

describe('description', () => {
  test('openapi.json names every route of the interface', async () => {
    const http = await start();
    const spec = (await (await fetch(`${http.url}/openapi.json`)).json()) as { openapi: string; paths: Json };
    expect(spec.openapi).toMatch(/^3\.1/);
    expect(Object.keys(spec.paths)).toEqual(
      expect.arrayContaining([
        '/healthz',
        '/readyz',
        '/metrics',
        '/webhook/{account}',
        '/webhook/{account}/messages/{id}',
        '/webhook/{account}/conversations/{conversation}/cancel',
        '/v1/chat/completions',
        '/v1/models',
        '/api/conversations',
        '/api/conversations/{id}',
        '/api/conversations/{id}/cancel',
        '/api/conversations/{id}/reset',
        '/api/channels',
        '/api/deliveries',
        '/api/deliveries/{id}/retry',
      ]),
    );
    expect(spec.paths['/webhook/{account}']).toMatchObject({
      post: {
        requestBody: { content: { 'application/json': { schema: { required: ['conversation', 'text'] } } } },
      },
    });
    expect(spec.paths['/api/channels']).toMatchObject({ get: { security: [{ bearer: [] }] } });
    // Only what there is: the routes that answer 405 are no part of it.
    expect(Object.keys(spec.paths['/healthz'] as Json)).toEqual(['get']);
  });

  test('docs is a page of this server alone', async () => {
    const http = await start();
    const response = await fetch(`${http.url}/docs`);
    expect(response.headers.get('content-type')).toContain('text/html');
    const page = await response.text();
    expect(page).toContain('POST /webhook/{account}');
    expect(page).toContain('id="invalid_body"');
    expect(page).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
  });
});
