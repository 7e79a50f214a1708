// Both clients against the strict fake: the good path, and every way in which a call can go wrong. The same cases for
// both, because the port promises the same of both.
import { createServer } from 'node:http';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createAnthropicClient } from '../../src/models/anthropic/client.ts';
import { createOpenAIClient } from '../../src/models/openai/client.ts';
import { resolveEntry } from '../../src/models/settings.ts';
import type { ModelSettings } from '../../config/schema.ts';
import type { ModelClient } from '../../src/ports/model.ts';
import { png } from '../fakes/media.ts';
import { callsIn, collect, fakeLog, nowTool, request, textIn, userSays } from '../fakes/models.ts';
import { startModelServer, type ModelServer, type ModelServerOptions } from '../fakes/model-server.ts';

const KEY = 'sk-test-0123456789abcdef';
let server: ModelServer;
let restartWith: (options: ModelServerOptions) => Promise<void>;

beforeEach(async () => {
  // The SDKs look into the environment by themselves.
  for (const name of Object.keys(process.env))
    if (/^(?:OPENAI|ANTHROPIC)_/.test(name)) vi.stubEnv(name, undefined);
  server = await startModelServer();
  restartWith = async (options) => {
    await server.close();
    server = await startModelServer(options);
  };
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server.close();
});

const make = {
  openai: (settings: Partial<ModelSettings> = {}): ModelClient =>
    createOpenAIClient(
      resolveEntry('main', {
        provider: 'openai',
        model: 'm',
        base_url: server.openaiUrl,
        api_key: KEY,
        ...settings,
      }),
      { log: fakeLog() },
    ),
  anthropic: (settings: Partial<ModelSettings> = {}): ModelClient =>
    createAnthropicClient(
      resolveEntry('main', {
        provider: 'anthropic',
        model: 'm',
        base_url: server.url,
        api_key: KEY,
        ...settings,
      }),
    ),
};

describe.each(['openai', 'anthropic'] as const)('%s', (vendor) => {
  const client = (settings?: Partial<ModelSettings>) => make[vendor](settings);

  it('streams text and says how it ended', async () => {
    server.enqueue({ text: ['Hel', 'lo ', '世界'], usage: { input: 12, output: 3, cached: 8 } });
    const { events, text, end } = await collect(client());
    expect(events.map((event) => event.type)).toEqual(['text', 'text', 'text', 'done']);
    expect(text).toBe('Hello 世界');
    expect(end).toMatchObject({
      type: 'done',
      stop: 'stop',
      model: 'main',
      content: [{ type: 'text', text: 'Hello 世界' }],
      usage: { input: 12, output: 3, cached: 8 },
    });
  });

  it('keeps thinking apart from text', async () => {
    server.enqueue({ thinking: ['let me ', 'see'], text: 'done' });
    const { thinking, text, end } = await collect(client());
    expect({ thinking, text }).toEqual({ thinking: 'let me see', text: 'done' });
    expect(end.content).toMatchObject([
      { type: 'thinking', thinking: 'let me see', model: 'm' },
      { type: 'text', text: 'done' },
    ]);
  });

  it('assembles parallel calls from fragments', async () => {
    server.enqueue({
      text: 'looking',
      calls: [
        { id: 'one', name: 'now', arguments: { zone: 'Asia/Tokyo' } },
        { id: 'two', name: 'now', arguments: '' },
      ],
    });
    const { end } = await collect(client(), request({ tools: [nowTool] }));
    expect(end).toMatchObject({ type: 'done', stop: 'tool_use' });
    expect(callsIn(end)).toEqual([
      { type: 'tool_call', id: 'one', name: 'now', arguments: '{"zone":"Asia/Tokyo"}' },
      { type: 'tool_call', id: 'two', name: 'now', arguments: '' },
    ]);
  });

  it('says length when the answer was cut off, calls or not', async () => {
    server.enqueue({
      calls: [{ name: 'now', arguments: '{"zone":"As' }],
      stop: vendor === 'openai' ? 'length' : 'max_tokens',
    });
    const { end } = await collect(client(), request({ tools: [nowTool] }));
    expect(end).toMatchObject({ type: 'done', stop: 'length' });
    expect(callsIn(end)[0]).toMatchObject({ arguments: '{"zone":"As' });
  });

  it('sends a history that the strict vendor takes', async () => {
    const image = { type: 'image', media_type: 'image/png', data: png().toString('base64') } as const;
    const { end } = await collect(
      client(),
      request({
        tools: [nowTool],
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'look' }, image] },
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: 'of another model', model: 'other', signature: 'x' },
              { type: 'text', text: ' ' },
              { type: 'tool_use', id: 'functions.now:0', name: 'now', input: { zone: 'UTC' } },
              { type: 'tool_use', id: 'x'.repeat(70), name: 'now', input: {} },
            ],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 'functions.now:0', content: '' },
              {
                type: 'tool_result',
                tool_use_id: 'x'.repeat(70),
                content: [{ type: 'text', text: '12:00' }, image],
                is_error: true,
              },
              { type: 'text', text: 'and now?' },
            ],
          },
          { role: 'assistant', content: [{ type: 'text', text: '' }] },
          userSays('still there?'),
          userSays(''),
        ],
      }),
    );
    expect(server.requests[0]?.rejected).toBeUndefined();
    expect(end).toMatchObject({ type: 'done', stop: 'stop' });
  });

  it('answers in text when tools are off, with the tools still in the request', async () => {
    const { end } = await collect(
      client(),
      request({ tools: [nowTool], allowTools: false, messages: [userSays('use:now')] }),
    );
    expect(callsIn(end)).toEqual([]);
    expect(server.requests[0]?.body.tools).toHaveLength(1);
  });

  it('merges extra_body and extra_headers, and sends no sampling parameter of its own', async () => {
    await restartWith({ extraParameters: ['enable_thinking'] });
    await collect(
      client({ extra_body: { enable_thinking: false, top_p: 0.5 }, extra_headers: { 'x-team': 'a' } }),
    );
    const sent = server.requests[0];
    expect(sent?.body).toMatchObject({ enable_thinking: false, top_p: 0.5 });
    expect(sent?.body).not.toHaveProperty('temperature');
    expect(sent?.headers['x-team']).toBe('a');
  });

  it('uses the key of the request before its own', async () => {
    await restartWith({ keys: ['mine'] });
    const { end } = await collect(client(), request({ apiKey: 'mine' }));
    expect(end.type).toBe('done');
  });

  describe('failures', () => {
    it.each<[string, number, string, object]>([
      ['wrong key', 401, 'Incorrect API key provided', { kind: 'auth', retryable: false, status: 401 }],
      ['no credit', 402, 'Insufficient Balance', { kind: 'quota', retryable: false }],
      ['bad request', 400, "Unknown parameter: 'x'", { kind: 'invalid', retryable: false }],
      ['too long', 400, 'prompt is too long: 208310 tokens > 200000 maximum', { kind: 'overflow' }],
      ['too large', 413, 'Request exceeds the maximum size', { kind: 'overflow' }],
      ['timeout', 408, 'Request timeout', { kind: 'overloaded', retryable: true }],
      ['conflict', 409, 'conflict', { kind: 'overloaded', retryable: true }],
      ['broken', 500, 'The server had an error', { kind: 'overloaded', retryable: true }],
      ['overloaded', 529, 'Overloaded', { kind: 'overloaded', retryable: true, status: 529 }],
      ['policy', 400, 'Content Exists Risk', { kind: 'refused', retryable: false }],
    ])('%s (%i)', async (_, status, error, expected) => {
      server.enqueue({ status, error });
      const { end } = await collect(client());
      expect(end).toMatchObject({ type: 'failed', stop: 'error', error: expected, content: [] });
      expect(server.requests).toHaveLength(1);
    });

    it('reads Retry-After', async () => {
      server.enqueue({ status: 429, error: 'slow down', headers: { 'retry-after': '7' } });
      expect((await collect(client())).end).toMatchObject({
        error: { kind: 'rate_limit', retryable: true, retryAfterMs: 7_000 },
      });
      server.enqueue({ status: 429, error: 'slow down', headers: { 'retry-after-ms': '250' } });
      expect((await collect(client())).end).toMatchObject({ error: { retryAfterMs: 250 } });
      const soon = new Date(Date.now() + 30_000).toUTCString();
      server.enqueue({ status: 503, error: 'later', headers: { 'retry-after': soon } });
      const { end } = await collect(client());
      const ms = (end.type === 'failed' && end.error?.retryAfterMs) || 0;
      expect(ms).toBeGreaterThan(25_000);
      expect(ms).toBeLessThanOrEqual(30_000);
    });

    it.each([
      [
        'an HTML page',
        {
          raw: '<html><title>Welcome</title><body>Log in to the proxy</body></html>',
          contentType: 'text/html',
        },
      ],
      ['an HTML page under the right name', { raw: '<html><body>Hello</body></html>' }],
      ['nothing at all', { raw: '' }],
      ['JSON of another kind', { raw: '{"ok":true}', contentType: 'application/json' }],
    ])('%s with status 200 is no answer', async (_, reply) => {
      server.enqueue(reply);
      expect((await collect(client())).end).toMatchObject({
        type: 'failed',
        error: { kind: 'network', retryable: true },
      });
    });

    it('an error as JSON with status 200 is that error', async () => {
      server.enqueue({
        raw: '{"error":{"message":"Rate limit reached for requests","code":"rate_limit_exceeded"}}',
        contentType: 'application/json',
      });
      expect((await collect(client())).end).toMatchObject({ error: { kind: 'rate_limit' } });
    });

    it('a stream that just closes is a premature end; what had arrived is kept', async () => {
      server.enqueue({ text: ['Hello', ' world'], endAfter: vendor === 'openai' ? 2 : 4 });
      const { end, text } = await collect(client());
      expect(end).toMatchObject({
        type: 'failed',
        stop: 'error',
        error: { kind: 'network', retryable: true },
      });
      expect(textIn(end)).toBe('Hello');
      expect(text).toBe('Hello');
    });

    it('a socket killed in mid-stream', async () => {
      server.enqueue({ text: ['Hello', ' world'], cutAfter: vendor === 'openai' ? 2 : 4 });
      const { end } = await collect(client());
      expect(end).toMatchObject({ type: 'failed', error: { kind: 'network', retryable: true } });
      expect(textIn(end)).toBe('Hello');
    });

    it('half a call is not kept', async () => {
      server.enqueue({ calls: [{ name: 'now', arguments: '{"zone":"Asia/Tokyo"}' }], cutAfter: 4 });
      const { end } = await collect(client(), request({ tools: [nowTool] }));
      expect(end).toMatchObject({ type: 'failed', content: [] });
    });

    it('a stream of garbage', async () => {
      server.enqueue({ text: ['Hello', ' world'], garbleAfter: 2 });
      expect((await collect(client())).end).toMatchObject({ error: { kind: 'network', retryable: true } });
    });

    it('an error inside the stream', async () => {
      server.enqueue({
        text: ['Hello', ' world'],
        errorAfter: {
          after: vendor === 'openai' ? 2 : 4,
          error: { type: 'overloaded_error', message: 'Overloaded' },
        },
      });
      const { end } = await collect(client());
      expect(end).toMatchObject({
        type: 'failed',
        error: { kind: 'overloaded', retryable: true, message: 'Overloaded' },
      });
      expect(textIn(end)).toBe('Hello');
    });

    it('silence, before the answer or in it, ends the call', async () => {
      const impatient = client({ idle_timeout_ms: 600 });
      server.enqueue({ hold: new Promise(() => undefined) });
      expect((await collect(impatient)).end).toMatchObject({
        error: { kind: 'network', retryable: true, message: expect.stringContaining('600 ms') },
      });
      server.enqueue({ text: ['Hello', ' world'], stallAfter: vendor === 'openai' ? 2 : 4 });
      const { end } = await collect(impatient);
      expect(end).toMatchObject({ error: { kind: 'network', message: expect.stringContaining('600 ms') } });
      expect(textIn(end)).toBe('Hello');
      await server.requests.at(-1)?.aborted;
    });

    it('a slow stream that goes on is no silence', async () => {
      server.enqueue({ text: Array.from({ length: 10 }, (_, n) => `${n} `), chunkDelayMs: 80 });
      const { end } = await collect(client({ idle_timeout_ms: 600 }));
      expect(textIn(end)).toBe('0 1 2 3 4 5 6 7 8 9 ');
    });

    it('nobody listens', async () => {
      const closed = createServer().listen(0, '127.0.0.1');
      await once(closed, 'listening');
      const address = closed.address();
      closed.close();
      if (address === null || typeof address === 'string') throw new TypeError('no port');
      const base_url = `http://127.0.0.1:${address.port}`;
      expect((await collect(client({ base_url }))).end).toMatchObject({
        error: { kind: 'network', retryable: true, message: expect.stringContaining('ECONNREFUSED') },
      });
    });

    it('never shows the key, not even as the vendor quotes it', async () => {
      await restartWith({ keys: ['another'] });
      const { end } = await collect(client());
      expect(end).toMatchObject({ error: { kind: 'auth' } });
      expect(JSON.stringify(end)).not.toContain(KEY);
      expect(JSON.stringify(end)).not.toContain('0123456789');
    });
  });

  describe('abort', () => {
    it('before the call', async () => {
      const { end } = await collect(client(), request(), AbortSignal.abort());
      expect(end).toMatchObject({ type: 'failed', stop: 'aborted', content: [] });
      expect(end).not.toHaveProperty('error');
    });

    it('before the first byte', async () => {
      const controller = new AbortController();
      server.enqueue({ hold: new Promise(() => undefined) });
      const collected = collect(client(), request(), controller.signal);
      const received = await server.request(0);
      controller.abort();
      expect((await collected).end).toMatchObject({ type: 'failed', stop: 'aborted' });
      await received.aborted;
    });

    it('in the stream: at once, with what had arrived, and the connection closed', async () => {
      const controller = new AbortController();
      server.enqueue({ text: ['Hello', ' world'], stallAfter: vendor === 'openai' ? 2 : 4 });
      let abortedAt = 0;
      let end: unknown;
      for await (const event of client().stream(request(), controller.signal)) {
        if (event.type === 'text') {
          abortedAt = performance.now();
          controller.abort();
        }
        end = event;
      }
      expect(performance.now() - abortedAt).toBeLessThan(200);
      expect(end).toMatchObject({
        type: 'failed',
        stop: 'aborted',
        content: [{ type: 'text', text: 'Hello' }],
      });
      await server.requests[0]?.aborted;
    });

    it('a reader that walks away closes the connection', async () => {
      server.enqueue({ text: ['Hello', ' world'], stallAfter: vendor === 'openai' ? 2 : 4 });
      for await (const event of client().stream(request(), new AbortController().signal))
        if (event.type === 'text') break;
      await server.requests[0]?.aborted;
    });
  });

  it('keeps the connection for the next call, even if the end comes after [DONE]', async () => {
    const ports = new Set<number>();
    const plain = client();
    server.onConnection((port) => ports.add(port));
    for (let n = 0; n < 6; n++) {
      server.enqueue({ text: 'hi', chunkDelayMs: 5 });
      await collect(plain);
    }
    expect(server.requests).toHaveLength(6);
    // The next call may start before the last one's connection is free.
    expect(ports.size).toBeLessThanOrEqual(2);
  });
});
