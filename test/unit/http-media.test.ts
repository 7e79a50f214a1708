// Files over HTTP: left for a message, fetched from an answer, with the credentials of the account and not without; and nothing in
// them ever runs in a browser.
import { describe, expect, test, vi } from 'vitest';
import { Webhook } from 'standardwebhooks';
import { createWebhookChannel } from '../../channels/webhook/index.ts';
import { configSchema, type WebhookSettings } from '../../config/schema.ts';
import { systemClock } from '../../src/system-clock.ts';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { KEY, SECRET, startHttpApp, type HttpApp, type HttpAppOptions } from '../fakes/http-app.ts';
import { silentLog } from '../fakes/log.ts';
import { png } from '../fakes/media.ts';
import { readEvents, type ReadEvent } from '../fakes/sse-client.ts';

const { track } = useCleanups();
const start = async (options?: HttpAppOptions): Promise<HttpApp> => track(await startHttpApp(options));

type Json = Record<string, unknown>;
const bearer = { authorization: `Bearer ${KEY}` };
const SHORT = `/webhook/webhook/media/${'ab'.repeat(32)}.txt`;

async function post(http: HttpApp, body: Json, headers: Record<string, string> = {}) {
  const response = await fetch(`${http.url}/webhook/webhook`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...bearer, ...headers },
    body: JSON.stringify({ conversation: 'c1', ...body }),
  });
  return { status: response.status, body: (await response.json()) as Json };
}

async function leave(http: HttpApp, bytes: Uint8Array, query = '', headers: Record<string, string> = {}) {
  const response = await fetch(`${http.url}/webhook/webhook/media${query}`, {
    method: 'POST',
    headers: { ...bearer, ...headers },
    body: new Uint8Array(bytes),
  });
  return { status: response.status, body: (await response.json()) as Json };
}

const FILE = {
  type: 'file',
  name: 'prices.csv',
  media_type: 'text/csv',
  size: 3,
  url: expect.stringMatching(/\/webhook\/webhook\/media\/[0-9a-f]{64}\.csv\?name=prices\.csv$/) as string,
};

describe('a file of an answer', () => {
  test('is told in the waiting answer, the status and the events; its address works with the key alone', async () => {
    const http = await start();
    const { body } = await post(
      http,
      { text: 'file prices' },
      { prefer: 'wait=10', 'idempotency-key': 'm1' },
    );
    expect(body['reply']).toEqual({ text: 'You said: file prices', attachments: [FILE] });
    const status = await fetch(`${http.url}/webhook/webhook/messages/m1`, { headers: bearer });
    expect(((await status.json()) as Json)['reply']).toEqual(body['reply']);

    const [{ url }] = (body['reply'] as { attachments: [{ url: string }] }).attachments;
    const got = await fetch(new URL(url, http.url), { headers: bearer });
    expect(await got.text()).toBe('a,b');
    expect(Object.fromEntries(got.headers)).toMatchObject({
      'content-type': 'text/csv',
      'content-disposition': `attachment; filename="prices.csv"; filename*=UTF-8''prices.csv`,
      'content-security-policy': "default-src 'none'; sandbox; frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'cache-control': expect.stringContaining('private') as string,
    });
    for (const headers of [{}, { authorization: 'Bearer wrong' }] as Record<string, string>[]) {
      const refused = await fetch(new URL(url, http.url), { headers });
      expect(refused.status).toBe(401);
      expect(await refused.text()).not.toContain('a,b');
    }
    const events: ReadEvent[] = [];
    const stream = await fetch(`${http.url}/webhook/webhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...bearer },
      body: JSON.stringify({ conversation: 'c2', text: 'file prices' }),
    });
    for await (const event of readEvents(stream)) events.push(event);
    const last = (name: string) => JSON.parse(events.findLast(({ event }) => event === name)!.data) as Json;
    expect(last('agent_end')).toMatchObject({ attachments: [FILE] });
    expect(last('done')).toMatchObject({ reply: { attachments: [FILE] } });
  });

  test('is told in the callback, with the public address if there is one', async () => {
    const receiver = track(await startCallbackReceiver());
    const http = await start({ server: { public_url: 'https://bot.example.com/' } });
    await post(http, { text: 'file prices', callback_url: receiver.url });
    const claim = await vi.waitFor(async () => {
      const found = await http.storage.outbox.claim('webhook:c1', 5_000);
      if (found.status !== 'claimed') throw new Error('nothing to deliver yet');
      return found;
    });
    const { channels } = configSchema.parse({
      channels: { webhook: { type: 'webhook', allow_private_callbacks: true } },
    });
    const settings = channels['webhook'] as WebhookSettings;
    const channel = createWebhookChannel({
      account: 'webhook',
      settings,
      clock: systemClock,
      log: silentLog,
      publicUrl: 'https://bot.example.com/',
    });
    expect(await channel.deliver(claim.delivery, AbortSignal.timeout(5_000))).toEqual({ status: 'sent' });
    const called = receiver.received[0]!.body as { reply: { attachments: [{ url: string }] } };
    expect(called.reply.attachments).toEqual([FILE]);
    expect(called.reply.attachments[0].url).toMatch(/^https:\/\/bot\.example\.com\/webhook\//);
  });

  test('that has expired, or never was, is not found; no reference leads elsewhere', async () => {
    const http = await start();
    const paths = [
      SHORT,
      '/webhook/webhook/media/media:x',
      '/webhook/webhook/media/..%2f..%2ftest.db',
      '/webhook/webhook/media/%00',
    ];
    for (const path of paths) {
      const response = await fetch(`${http.url}${path}`, { headers: bearer });
      expect(response.status, path).toBe(404);
      expect(await response.json()).toMatchObject({ code: 'not_found' });
    }
  });

  test('a signed request will do as well', async () => {
    const http = await start();
    const { ref } = await http.media.put({ bytes: Buffer.from('secret'), name: 'a.txt' });
    const at = new Date();
    const headers = {
      'webhook-id': 'get-1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(SECRET).sign('get-1', at, ''),
    };
    const got = await fetch(`${http.url}/webhook/webhook/media/${ref}`, { headers });
    expect(await got.text()).toBe('secret');
  });

  test.each([
    ['a picture is shown in place', png(), undefined, 'image/png', 'inline'],
    ['a page is a download', Buffer.from('<script>1</script>'), 'text/html', 'text/html', 'attachment'],
    ['so is a drawing', Buffer.from('<svg/>'), 'image/svg+xml', 'image/svg+xml', 'attachment'],
    [
      'a page that says it is a picture is no type at all',
      Buffer.from('<html>'),
      'image/png',
      'application/octet-stream',
      'attachment',
    ],
  ])('%s', async (_what, bytes, said, type, how) => {
    const http = await start();
    const { ref } = await http.media.put({ bytes, ...(said && { media_type: said }) });
    const got = await fetch(`${http.url}/webhook/webhook/media/${ref}`, { headers: bearer });
    expect(got.headers.get('content-type')).toBe(type);
    expect(got.headers.get('content-disposition')).toMatch(new RegExp(`^${how};`));
    expect(got.headers.get('content-security-policy')).toContain('sandbox');
  });

  test('odd names make no header of their own', async () => {
    const http = await start();
    const { ref } = await http.media.put({ bytes: Buffer.from('x'), name: 'x.txt' });
    const name = encodeURIComponent('报"告\r\nSet-Cookie: a=b/..\\.txt');
    const got = await fetch(`${http.url}/webhook/webhook/media/${ref}?name=${name}`, { headers: bearer });
    expect(got.headers.get('set-cookie')).toBeNull();
    expect(got.headers.get('content-disposition')).toMatch(
      /^attachment; filename="[\w .:=-]+"; filename\*=UTF-8''[\w%.-]+$/,
    );
  });
});

describe('a file for a message', () => {
  test('is left, and named by its ref', async () => {
    const http = await start();
    const left = await leave(http, png(), '?name=map.png', { 'content-type': 'text/plain' });
    expect(left).toEqual({
      status: 201,
      body: {
        ref: expect.stringMatching(/^media:[0-9a-f]{64}\.png$/) as string,
        media_type: 'image/png',
        size: png().length,
        name: 'map.png',
      },
    });
    const attachments = [{ type: 'image', ...left.body }];
    expect((await post(http, { text: 'hold this', attachments }, { 'idempotency-key': 'm1' })).status).toBe(
      202,
    );
    // With another file it is another message.
    const other = [{ type: 'image', ref: String(left.body['ref']).replace(/.{8}\.png/, '00000000.png') }];
    const mismatch = await post(http, { text: 'hold this', attachments: other }, { 'idempotency-key': 'm1' });
    expect(mismatch.body).toMatchObject({ code: 'idempotency_mismatch' });
  });

  test('is refused when it is empty, too large, or without credentials', async () => {
    const http = await start();
    expect((await leave(http, Buffer.alloc(0))).body).toMatchObject({ code: 'bad_request' });
    expect((await leave(http, Buffer.alloc(4_000_001))).body).toMatchObject({ code: 'payload_too_large' });
    expect((await leave(http, png(), '', { authorization: 'Bearer wrong' })).status).toBe(401);
  });

  test('attachments have a url or a ref, and a ref that is one', async () => {
    const http = await start();
    for (const attachment of [{}, { ref: '/etc/passwd' }, { ref: 'media:x', url: 'https://example.com/a' }]) {
      const { status } = await post(http, { text: 'hi', attachments: [attachment] });
      expect(status).toBe(422);
    }
  });
});

describe('the OpenAI-compatible API', () => {
  const complete = async (http: HttpApp, body: Json) =>
    fetch(`${http.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...bearer },
      body: JSON.stringify(body),
    });

  test('names files as links, once, streamed or not', async () => {
    const http = await start();
    const messages = [{ role: 'user', content: 'file prices' }];
    const whole = (await (await complete(http, { messages })).json()) as {
      choices: [{ message: { content: string } }];
    };
    const link =
      /^You said: file prices\n\n\[prices\.csv\]\(\/webhook\/webhook\/media\/\w+\.csv\?name=prices\.csv\)$/;
    expect(whole.choices[0].message.content).toMatch(link);
    let text = '';
    for await (const { data } of readEvents(await complete(http, { messages, stream: true }))) {
      if (data === '[DONE]') continue;
      const { choices } = JSON.parse(data) as { choices: [{ delta: { content?: string } }] };
      text += choices[0].delta.content ?? '';
    }
    expect(text).toMatch(link);
  });

  test('takes inline images, and keeps them by reference', async () => {
    const http = await start();
    const url = `data:image/png;base64,${png().toString('base64')}`;
    const parts = [
      { type: 'text', text: 'look' },
      { type: 'image_url', image_url: { url } },
    ];
    const append = vi.spyOn(http.storage.store, 'append');
    expect((await complete(http, { messages: [{ role: 'user', content: parts }] })).status).toBe(200);
    const [message] = append.mock.calls[0] ?? [];
    expect(message?.attachments).toEqual([
      {
        type: 'image',
        ref: expect.stringMatching(/^media:/) as string,
        media_type: 'image/png',
        size: png().length,
      },
    ]);
    const bad = [{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }];
    expect((await complete(http, { messages: [{ role: 'user', content: bad }] })).status).toBe(400);
  });
});

describe('the chat page’s routes', () => {
  const web = (more: Json = {}) => ({ channels: { web: { type: 'web', ...more } } }) as HttpAppOptions;
  const upload = (http: HttpApp, headers: Record<string, string> = {}) =>
    fetch(`${http.url}/web/web/media?name=a.png`, {
      method: 'POST',
      headers: { 'content-type': 'image/png', ...headers },
      body: new Uint8Array(png()),
    });

  test('take a file and give it back, to who may use the page', async () => {
    const http = await start(web());
    const left = await upload(http);
    expect(left.status).toBe(201);
    const { ref } = (await left.json()) as { ref: string };
    const got = await fetch(`${http.url}/web/web/media/${ref}`);
    expect(Buffer.from(await got.arrayBuffer())).toEqual(png());
    expect(got.headers.get('content-disposition')).toMatch(/^inline/);
    expect((await fetch(`${http.url}/web/nobody/media/${ref}`)).status).toBe(404);
  });

  test('ask for the key, and for our own page', async () => {
    const http = await start(web({ api_keys: ['page-key'] }));
    const { ref } = await http.media.put({ bytes: png() });
    expect((await upload(http)).status).toBe(401);
    expect((await fetch(`${http.url}/web/web/media/${ref}`)).status).toBe(401);
    const key = { authorization: 'Bearer page-key' };
    expect((await fetch(`${http.url}/web/web/media/${ref}`, { headers: key })).status).toBe(200);
    expect((await upload(http, { ...key, origin: 'https://evil.example' })).status).toBe(403);
  });

  test('a message may be a file alone; what is no reference is refused', async () => {
    const http = await start(web());
    const file = (await (await upload(http)).json()) as Json;
    const say = (body: Json) =>
      fetch(`${http.url}/web/web/conversations/a-chat-id-of-128-bits-/messages`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ id: 'message-id-of-128-bits', ...body }),
      });
    const append = vi.spyOn(http.storage.store, 'append');
    expect((await say({ text: '', files: [file] })).status).toBe(202);
    expect(append.mock.calls[0]?.[0].attachments).toEqual([{ type: 'image', ...file }]);
    expect((await say({ text: '' })).status).toBe(422);
    expect((await say({ text: 'x', files: [{ ...file, ref: '/etc/passwd' }] })).status).toBe(422);
  });
});
