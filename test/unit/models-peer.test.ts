// Both clients against @copilotkit/aimock, a fake of both APIs that nobody here wrote: what it and our own fake agree on
// is what the vendors do.
import { LLMock } from '@copilotkit/aimock';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { createAnthropicClient } from '../../src/models/anthropic/client.ts';
import { createFailover } from '../../src/models/failover.ts';
import { createOpenAIClient } from '../../src/models/openai/client.ts';
import { resolveEntry } from '../../src/models/settings.ts';
import { callsIn, collect, fakeClock, fakeLog, nowTool, request, textIn, userSays } from '../fakes/models.ts';

const mock = new LLMock({ port: 0, latency: 1, chunkSize: 7 });
beforeAll(async () => {
  for (const name of Object.keys(process.env))
    if (/^(?:OPENAI|ANTHROPIC)_/.test(name)) vi.stubEnv(name, undefined);
  mock.onToolResult('call_1', { content: 'It is noon in Tokyo.' });
  mock.onMessage('two clocks', {
    content: 'Looking at both.',
    toolCalls: [
      { id: 'call_1', name: 'now', arguments: '{"zone":"Asia/Tokyo"}' },
      { id: 'call_2', name: 'now', arguments: '{"zone":"Europe/Berlin"}' },
    ],
  });
  mock.onMessage('think', { content: 'Forty-two.', reasoning: 'Six times nine, or so they say.' });
  mock.onMessage('hello', {
    content: 'Hello from the other side, 你好。',
    usage: { prompt_tokens: 12, completion_tokens: 9, input_tokens: 12, output_tokens: 9 },
  });
  await mock.start();
});
afterEach(() => mock.clearRequests());
afterAll(async () => {
  vi.unstubAllEnvs();
  await mock.stop();
});

const make = {
  openai: () =>
    createOpenAIClient(
      resolveEntry('main', { provider: 'openai', model: 'gpt-5', base_url: `${mock.url}/v1`, api_key: 'k' }),
      { log: fakeLog() },
    ),
  anthropic: () =>
    createAnthropicClient(
      resolveEntry('main', {
        provider: 'anthropic',
        model: 'claude-sonnet-5-5',
        base_url: mock.url,
        api_key: 'k',
      }),
    ),
};

describe.each(['openai', 'anthropic'] as const)('%s', (vendor) => {
  const ask = (text: string) =>
    collect(make[vendor](), request({ tools: [nowTool], messages: [userSays(text)] }));

  it('text in pieces, with usage', async () => {
    const { text, events, end } = await ask('hello');
    expect(text).toBe('Hello from the other side, 你好。');
    expect(events.filter((event) => event.type === 'text').length).toBeGreaterThan(2);
    expect(end).toMatchObject({ type: 'done', stop: 'stop', usage: { input: 12, output: 9, cached: 0 } });
  });

  it('reasoning', async () => {
    const { thinking, text } = await ask('think');
    expect({ thinking, text }).toEqual({ thinking: 'Six times nine, or so they say.', text: 'Forty-two.' });
  });

  it('parallel calls in fragments, and the answer to their results', async () => {
    const { end } = await ask('two clocks');
    expect(end).toMatchObject({ type: 'done', stop: 'tool_use' });
    expect(callsIn(end)).toEqual([
      { type: 'tool_call', id: 'call_1', name: 'now', arguments: '{"zone":"Asia/Tokyo"}' },
      { type: 'tool_call', id: 'call_2', name: 'now', arguments: '{"zone":"Europe/Berlin"}' },
    ]);
    const { end: answer } = await collect(
      make[vendor](),
      request({
        tools: [nowTool],
        messages: [
          userSays('two clocks'),
          {
            role: 'assistant',
            content: [
              { type: 'text', text: textIn(end) },
              { type: 'tool_use', id: 'call_2', name: 'now', input: { zone: 'Europe/Berlin' } },
              { type: 'tool_use', id: 'call_1', name: 'now', input: { zone: 'Asia/Tokyo' } },
            ],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 'call_2', content: '04:00' },
              { type: 'tool_result', tool_use_id: 'call_1', content: '12:00' },
            ],
          },
        ],
      }),
    );
    expect(textIn(answer)).toBe('It is noon in Tokyo.');
  });

  it('429, tried again', async () => {
    mock.nextRequestError(429, { message: 'Rate limit exceeded', type: 'rate_limit_error' });
    const clock = fakeClock();
    const client = createFailover([make[vendor]()], {
      retry: () => ({ attempts: 3, base_ms: 500, max_ms: 60_000 }),
      clock,
      log: fakeLog(),
    });
    const { end } = await collect(client, request({ messages: [userSays('hello')] }));
    expect(textIn(end)).toBe('Hello from the other side, 你好。');
    expect(clock.waits).toHaveLength(1);
  });
});
