// The fake model server itself: it must reject what the vendors reject, or the tests that lean on it prove nothing.
import { afterEach, describe, expect, it } from 'vitest';
import { startModelServer, type ModelServer, type ModelServerOptions } from '../fakes/model-server.ts';

let server: ModelServer;
afterEach(() => server.close());

const start = async (options: ModelServerOptions = {}) => {
  server = await startModelServer(options);
};

const post = async (path: string, body: object, headers: Record<string, string> = {}) => {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: 'Bearer key',
      'anthropic-version': '2023-06-01',
      ...headers,
    },
    body: JSON.stringify(body),
  });
  return { status: response.status, text: await response.text() };
};
const openai = (messages: object[], more: object = {}) =>
  post('/v1/chat/completions', { model: 'm', messages, stream: true, ...more });
const anthropic = (messages: object[], more: object = {}) =>
  post('/v1/messages', { model: 'm', max_tokens: 100, messages, stream: true, tools: [], ...more });

const user = { role: 'user', content: 'hi' };
const call = (id: string, args = '{}') => ({
  id,
  type: 'function',
  function: { name: 'now', arguments: args },
});
const use = (id: string) => ({ type: 'tool_use', id, name: 'now', input: {} });
const result = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: 'x' });
const assistant = (...content: object[]) => ({ role: 'assistant', content });
const says = (...content: object[]) => ({ role: 'user', content });
const text = (value: string) => ({ type: 'text', text: value });

const calls = (...ids: string[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => call(id)),
});
const tool = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'x' });

/** The text of an OpenAI stream. */
const textIn = (stream: string) =>
  [...stream.matchAll(/"content":("[^"]*")/g)].map((match) => String(JSON.parse(match[1] ?? ''))).join('');

describe('openai rules', () => {
  it.each<[string, object[], object, RegExp]>([
    ['an open call', [user, calls('a', 'b'), tool('a')], {}, /did not have response messages: b/],
    ['a user message between call and result', [user, calls('a'), user, tool('a')], {}, /did not have/],
    ['an orphaned result', [user, tool('a')], {}, /must be a response to a preceeding message/],
    ['an unknown role', [{ role: 'bot', content: 'x' }], {}, /Invalid value: 'bot'/],
    ['two equal ids', [user, calls('a', 'a'), tool('a')], {}, /Duplicate value/],
    ['an id of 41 characters', [user, calls('a'.repeat(41)), tool('a'.repeat(41))], {}, /length 41/],
    ['an empty assistant', [user, { role: 'assistant', content: '' }, user], {}, /content or tool_calls/],
    ['null content', [{ role: 'user', content: null }], {}, /expected a string, got null/],
    ['both limits', [user], { max_tokens: 1, max_completion_tokens: 1 }, /cannot be set at the same time/],
    ['an unknown parameter', [user], { thinking: {} }, /Unrecognized request argument supplied: thinking/],
    ['a tool choice without tools', [user], { tool_choice: 'none' }, /only allowed when 'tools'/],
    ['an empty list of tools', [user], { tools: [] }, /too short - 'tools'/],
    [
      'arguments that are no object',
      [user, { ...calls('a'), tool_calls: [call('a', '[1')] }, tool('a')],
      {},
      /expected a JSON object/,
    ],
  ])('reject %s', async (_, messages, more, message) => {
    await start();
    const answer = await openai(messages, more);
    expect(answer.status).toBe(400);
    expect(server.requests[0]?.rejected).toMatch(message);
    expect(server.requests[0]?.rejected).toMatch(message);
  });

  it('accept a paired history', async () => {
    await start();
    const answer = await openai([user, calls('a', 'b'), tool('b'), tool('a'), user]);
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('[DONE]');
  });

  it('follow the options of stricter endpoints', async () => {
    await start({ openai: { toolsWithCalls: true, rejectParameters: ['stream_options'], alternate: true } });
    expect((await openai([user, calls('a'), tool('a')])).text).toContain("Set 'tools=[]'");
    expect((await openai([user, calls('a'), tool('a')], { tools: [] })).status).toBe(200);
    expect((await openai([user], { stream_options: {} })).status).toBe(400);
    expect((await openai([user, user])).text).toContain('must alternate');
  });
});

describe('anthropic rules', () => {
  it.each<[string, object[], object, RegExp]>([
    ['an open call', [user, assistant(use('a'))], {}, /ids were found without `tool_result`/],
    ['a missing result', [user, assistant(use('a'), use('b')), says(result('a'))], {}, /after: b/],
    ['an orphaned result', [says(result('a'))], {}, /unexpected `tool_use_id`/],
    [
      'text before results',
      [user, assistant(use('a')), says(text('x'), result('a'))],
      {},
      /must come before/,
    ],
    ['two users in a row', [user, user], {}, /roles must alternate/],
    ['an assistant first', [assistant(text('x'))], {}, /first message must use the "user" role/],
    ['a system role', [{ role: 'system', content: 'x' }], {}, /Unexpected role "system"/],
    ['empty content', [user, assistant(), user], {}, /must have non-empty content/],
    ['blank text', [says(text(' '))], {}, /non-whitespace text/],
    ['trailing whitespace', [user, assistant(text('Sure: '))], {}, /trailing whitespace/],
    ['an id with a colon', [user, assistant(use('a:1')), says(result('a:1'))], {}, /should match pattern/i],
    [
      'an id used twice',
      [user, assistant(use('a')), says(result('a')), assistant(use('a')), says(result('a'))],
      {},
      /must be unique/,
    ],
    ['no tools', [user, assistant(use('a')), says(result('a'))], { tools: undefined }, /must define tools/],
    ['no limit', [user], { max_tokens: undefined }, /max_tokens: Field required/],
    ['an unsigned thought', [user, assistant({ type: 'thinking', thinking: 'x' })], {}, /signature/],
    [
      'an altered thought',
      [user, assistant({ type: 'thinking', thinking: 'x', signature: 'sig' })],
      {},
      /Invalid `signature`/,
    ],
    [
      'five breakpoints',
      [says(...Array.from({ length: 5 }, () => ({ ...text('x'), cache_control: { type: 'ephemeral' } })))],
      {},
      /maximum of 4 blocks/,
    ],
  ])('reject %s', async (_, messages, more, message) => {
    await start();
    const answer = await anthropic(messages, more);
    expect(answer.status).toBe(400);
    expect(server.requests[0]?.rejected).toMatch(message);
  });

  it('accept a paired history', async () => {
    await start();
    const answer = await anthropic([user, assistant(use('a')), says(result('a'), text('and?'))]);
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('event: message_stop');
  });
});

describe('behaviour', () => {
  it('calls the tool a text names, then answers with its result', async () => {
    await start();
    const tools = [{ type: 'function', function: { name: 'now', parameters: { type: 'object' } } }];
    const ask = { role: 'user', content: 'please use:now{"zone":"Asia/Tokyo"} thanks' };
    const first = await openai([ask], { tools });
    expect(first.text).toContain('"name":"now"');
    expect(first.text).toContain('"finish_reason":"tool_calls"');
    const second = await openai(
      [
        ask,
        { role: 'assistant', content: null, tool_calls: [call('a')] },
        { role: 'tool', tool_call_id: 'a', content: '12:00' },
      ],
      { tools },
    );
    expect(textIn(second.text)).toBe('result: 12:00');
  });

  it('refuses a wrong key, quoting it as the vendors do', async () => {
    await start({ keys: ['right'] });
    const answer = await openai([user]);
    expect(answer.status).toBe(401);
    expect(answer.text).toContain('Incorrect API key provided: key');
  });

  it('cuts and stalls where it is told to', async () => {
    await start();
    server.enqueue({ text: ['a', 'b'], cutAfter: 2 });
    await expect(openai([user])).rejects.toThrow('terminated');
    server.enqueue({ text: ['a', 'b'], endAfter: 2 });
    expect((await openai([user])).text).not.toContain('[DONE]');
    server.enqueue({ text: 'a', stallAfter: 1 });
    const controller = new AbortController();
    const stalled = fetch(`${server.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': 'k', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify({ model: 'm', max_tokens: 1, messages: [user], stream: true }),
      signal: controller.signal,
    }).then((response) => response.text());
    const request = await server.request(2);
    controller.abort();
    await expect(stalled).rejects.toThrow('aborted');
    await request.aborted;
  });
});
