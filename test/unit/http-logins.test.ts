// Logging a channel account in over the management API: the QR code, and the code that the phone shows.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { qrAsSvg } from '../../channels/shared/qr.ts';
import { AppError } from '../../src/domain/errors.ts';
import type { Channel, ChannelStatus } from '../../src/ports/channel.ts';
import { ADMIN, startHttpApp, type HttpApp } from '../fakes/http-app.ts';

const entered: string[] = [];
let status: ChannelStatus = { state: 'connected' };
const me: Channel = {
  account: 'me',
  type: 'weixin',
  start: async () => {},
  stop: async () => {},
  deliver: async () => ({ status: 'sent' }),
  status: () => status,
  async enterCode(code) {
    if (status.asks !== 'code') throw new AppError('conflict', 'No code is asked for now.');
    entered.push(code);
  },
};

let http: HttpApp;
beforeAll(async () => {
  const channels = { webhook: { type: 'webhook' } };
  http = await startHttpApp({ channels, more: [me] });
});
afterAll(() => http.close());

const authorization = `Bearer ${ADMIN}`;
const get = (path: string, headers: Record<string, string> = { authorization }) =>
  fetch(`${http.url}/api/channels${path}`, { headers });
const post = (path: string, body: object, headers: Record<string, string> = { authorization }) =>
  fetch(`${http.url}/api/channels${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

describe('while an account waits for its login', () => {
  test('its QR code is told, and drawn, to the administrator alone', async () => {
    status = { state: 'waiting_for_login', detail: 'scan', qr: 'https://example.org/login' };
    const { items } = (await (await get('')).json()) as { items: object[] };
    expect(items).toContainEqual({ account: 'me', type: 'weixin', ...status });
    const picture = await get('/me/qr.svg?of=x');
    expect(picture.headers.get('content-type')).toContain('image/svg+xml');
    expect(picture.headers.get('cache-control')).toBe('no-store');
    expect(await picture.text()).toBe(qrAsSvg('https://example.org/login'));
    expect((await get('/me/qr.svg', {})).status).toBe(401);
    expect((await get('/nobody/qr.svg')).status).toBe(404);
  });

  test('the code of the phone is passed on', async () => {
    status = { ...status, asks: 'code' };
    expect((await post('/me/code', { code: ' 4711 ' })).status).toBe(200);
    expect(entered).toEqual(['4711']);
    expect((await post('/me/code', { code: '' })).status).toBe(422);
    expect((await post('/me/code', { code: '1' }, {})).status).toBe(401);
    expect((await post('/nobody/code', { code: '1' })).status).toBe(404);
  });
});

test('without a login that waits there is neither', async () => {
  status = { state: 'connected' };
  expect((await get('/me/qr.svg')).status).toBe(404);
  expect((await post('/me/code', { code: '1' })).status).toBe(409);
  expect((await post('/webhook/code', { code: '1' })).status).toBe(409);
});
