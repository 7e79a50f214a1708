// What goes out: the flags of vendors, reasoning sent back, ids, and a body whose beginning never changes.
import { afterEach, describe, expect, it } from 'vitest';
import type { ModelSettings } from '../../config/schema.ts';
import type { Message, ThinkingBlock } from '../../src/domain/messages.ts';
import { createAnthropicClient } from '../../src/models/anthropic/client.ts';
import { createRequestBuilder as anthropicBuilder } from '../../src/models/anthropic/request.ts';
import { createOpenAIClient } from '../../src/models/openai/client.ts';
import { createRequestBuilder as openaiBuilder } from '../../src/models/openai/request.ts';
import { resolveEntry } from '../../src/models/settings.ts';
import type { ModelRequest } from '../../src/ports/model.ts';
import { collect, fakeLog, nowTool, request, textIn, userSays } from '../fakes/models.ts';
import {
  signatureOf,
  startModelServer,
  type ModelServer,
  type ModelServerOptions,
} from '../fakes/model-server.ts';

type Json = Record<string, unknown>;

let server: ModelServer | undefined;
afterEach(() => server?.close());

const start = async (options: ModelServerOptions = {}): Promise<ModelServer> => {
  server = await startModelServer(options);
  return server;
};

const openai = (settings: Partial<ModelSettings> = {}, log = fakeLog()) =>
  createOpenAIClient(
    resolveEntry('main', {
      provider: 'openai',
      model: 'm',
      base_url: server?.openaiUrl ?? 'http://127.0.0.1:1',
      api_key: 'k',
      ...settings,
    }),
    { log },
  );
const anthropic = (settings: Partial<ModelSettings> = {}) =>
  createAnthropicClient(
    resolveEntry('main', {
      provider: 'anthropic',
      model: 'm',
      base_url: server?.url ?? '',
      api_key: 'k',
      ...settings,
    }),
  );

const openaiBody = (settings: Partial<ModelSettings>, asked: Partial<ModelRequest> = {}): Json =>
  openaiBuilder(
    resolveEntry('main', { provider: 'openai', model: 'm', base_url: 'http://x/v1', ...settings }),
  ).build(request(asked));
const anthropicBody = (settings: Partial<ModelSettings>, asked: Partial<ModelRequest> = {}): Json =>
  anthropicBuilder(resolveEntry('main', { provider: 'anthropic', model: 'm', ...settings })).build(
    request(asked),
  );

const assistant = (...content: Message['content']): Message => ({ role: 'assistant', content });
const results = (...ids: string[]): Message => ({
  role: 'user',
  content: ids.map((id) => ({ type: 'tool_result', tool_use_id: id, content: 'result' })),
});
const use = (id: string, extra?: Json) =>
  ({ type: 'tool_use', id, name: 'now', input: {}, ...(extra && { extra }) }) as const;
const thought = (more: Partial<ThinkingBlock> = {}): ThinkingBlock => ({
  type: 'thinking',
  thinking: 'because',
  model: 'm',
  field: 'reasoning_content',
  ...more,
});
const chain = (block?: ThinkingBlock): Message[] => [
  userSays('what time is it'),
  assistant(...(block ? [block] : []), use('call_1')),
  results('call_1'),
];
const listOf = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const messagesOf = (body: Json) => listOf(body.messages);

describe('openai: flags', () => {
  it('one limit, under the name that the endpoint knows', () => {
    expect(openaiBody({})).toMatchObject({ max_tokens: 8_192 });
    expect(openaiBody({})).not.toHaveProperty('max_completion_tokens');
    const official = openaiBody({ base_url: 'https://api.openai.com/v1', model: 'gpt-5' });
    expect(official).toHaveProperty('max_completion_tokens');
    expect(official).not.toHaveProperty('max_tokens');
    expect(openaiBody({ flags: { max_tokens_field: 'none' } })).not.toHaveProperty('max_tokens');
  });

  it('no stream_options where they are rejected; no store, no strict, no developer role anywhere', () => {
    expect(openaiBody({})).toMatchObject({ stream_options: { include_usage: true } });
    const glm = openaiBody({ preset: 'glm' }, { tools: [nowTool] });
    expect(glm).not.toHaveProperty('stream_options');
    for (const body of [glm, openaiBody({}, { tools: [nowTool] })]) {
      expect(body).not.toHaveProperty('store');
      expect(JSON.stringify(body)).not.toMatch(/strict|developer/);
    }
  });

  it('a prompt_cache_key for OpenAI itself, and for others only when asked', () => {
    const key = `web:${'x'.repeat(100)}-end`;
    const body = openaiBody({ base_url: '' }, { cacheKey: key });
    expect(body.prompt_cache_key).toHaveLength(64);
    expect(body.prompt_cache_key).toMatch(/-end$/);
    expect(openaiBody({}, { cacheKey: key })).not.toHaveProperty('prompt_cache_key');
    expect(openaiBody({ flags: { prompt_cache_key: true } }, { cacheKey: 'web:1' })).toMatchObject({
      prompt_cache_key: 'web:1',
    });
  });

  it('tools: [] when the history has calls and there are no tools, for LiteLLM', () => {
    expect(openaiBody({}, { messages: chain() })).not.toHaveProperty('tools');
    const flags = { empty_tools: true };
    expect(openaiBody({ flags }, { messages: chain() })).toMatchObject({ tools: [] });
    expect(openaiBody({ flags })).not.toHaveProperty('tools');
  });

  it('tools are switched off with tool_choice, or withheld where that is unknown', () => {
    const asked = { tools: [nowTool], allowTools: false };
    expect(openaiBody({}, asked)).toMatchObject({ tool_choice: 'none', tools: [{ type: 'function' }] });
    const without = openaiBody({ flags: { tool_choice: false } }, asked);
    expect(without).not.toHaveProperty('tools');
    expect(without).not.toHaveProperty('tool_choice');
  });

  it('merges equal roles and skips empty assistants; a last word of the model becomes a question', () => {
    const messages = [
      userSays('one'),
      userSays('two'),
      assistant({ type: 'text', text: ' ' }),
      userSays('three'),
      assistant({ type: 'text', text: 'four' }),
      assistant({ type: 'text', text: 'five' }),
    ];
    expect(messagesOf(openaiBody({}, { messages }))).toEqual([
      { role: 'system', content: 'You are helpful.' },
      { role: 'user', content: 'one\n\ntwo\n\nthree' },
      { role: 'assistant', content: 'four\n\nfive' },
      { role: 'user', content: 'Go on.' },
    ]);
  });

  it('an endpoint that takes no user after a tool', async () => {
    await start({ openai: { alternate: true } });
    const messages = [...chain(), userSays('and now?')];
    const { end } = await collect(openai({ flags: { bridge_tool_results: true } }), request({ messages }));
    expect(end.type).toBe('done');
  });

  it('a model that knows no system role', () => {
    const body = openaiBody({ flags: { system_role: 'user' } });
    expect(messagesOf(body)).toEqual([{ role: 'user', content: 'You are helpful.\n\nhi' }]);
  });

  it('tool content is a string; pictures in a result follow as a user message', () => {
    const messages: Message[] = [
      ...chain().slice(0, 2),
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'call_1',
            content: [
              { type: 'text', text: 'a map' },
              { type: 'image', media_type: 'image/png', data: 'aGk=' },
            ],
          },
        ],
      },
    ];
    expect(messagesOf(openaiBody({}, { messages })).slice(-2)).toEqual([
      { role: 'tool', tool_call_id: 'call_1', content: 'a map\n(picture below)' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Pictures from the tool result:' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } },
        ],
      },
    ]);
    const blind = messagesOf(openaiBody({ images: false }, { messages }));
    expect(blind.at(-1)).toMatchObject({
      role: 'tool',
      content: "a map\n(a picture, image/png; you can't see pictures)",
    });
  });

  it('pictures by URL, and words for what cannot be sent', () => {
    const messages: Message[] = [
      {
        role: 'user',
        content: [
          { type: 'image', media_type: 'image/png', ref: 'https://example.com/a.png' },
          { type: 'image', media_type: 'image/png', ref: 'blobs/1' },
          { type: 'file', media_type: 'text/csv', name: 'a.csv', ref: 'blobs/2', size: 12 },
        ],
      },
    ];
    expect(messagesOf(openaiBody({}, { messages })).at(-1)?.content).toEqual([
      { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
      { type: 'text', text: '(a picture, image/png, that is no longer available)' },
      { type: 'text', text: '(a file: a.csv, text/csv, 12 bytes)' },
    ]);
  });
});

describe('openai: reasoning is sent back', () => {
  const sent = (settings: Partial<ModelSettings>, block?: ThinkingBlock) =>
    messagesOf(openaiBody(settings, { messages: chain(block) })).find(({ role }) => role === 'assistant');

  it('under the field it came in, whole, to the model it came from', () => {
    const long = 'x'.repeat(20_000);
    expect(sent({}, thought({ thinking: long }))).toMatchObject({ reasoning_content: long });
    expect(sent({}, thought({ field: 'reasoning' }))).toMatchObject({ reasoning: 'because' });
    expect(sent({}, thought({ model: 'other' }))).not.toHaveProperty('reasoning_content');
    expect(sent({ flags: { reasoning: 'drop' } }, thought())).not.toHaveProperty('reasoning_content');
    expect(sent({ flags: { reasoning_field: 'reasoning' } }, thought())).toMatchObject({
      reasoning: 'because',
    });
  });

  it.each([
    { preset: 'deepseek', model: 'deepseek-flash' },
    { preset: 'kimi', model: 'kimi-k2.6' },
    { preset: 'mimo', model: 'mimo-v2-flash' },
    { base_url: 'https://gateway.example/v1', model: 'deepseek-ai/DeepSeek-V4' },
  ] as const)('even if there is none, where it is demanded: $model', async (settings) => {
    await start({ openai: { reasoningField: 'reasoning_content' }, extraParameters: ['reasoning_content'] });
    const url = server?.openaiUrl ?? '';
    const client = openai({ ...settings, base_url: url });
    for (const block of [undefined, thought({ model: 'other' }), thought({ model: settings.model })]) {
      const { end } = await collect(client, request({ messages: chain(block) }));
      expect(end.type).toBe('done');
    }
    const fields = server?.requests.map(({ body }) => messagesOf(body)[2]?.reasoning_content);
    expect(fields).toEqual(['', '', 'because']);
  });

  it('as tags, for MiniMax', () => {
    const settings = { preset: 'minimax', model: 'MiniMax-M2.5' } as const;
    const block = thought({ model: 'MiniMax-M2.5', field: 'think' });
    expect(sent(settings, block)).toMatchObject({ content: '<think>\nbecause\n</think>\n\n' });
  });

  it('reasoning_details as they came', () => {
    const details = [{ type: 'reasoning.encrypted', data: 'gAAA', id: 'rs_1' }];
    const block = thought({ thinking: '', field: 'reasoning_details', signature: JSON.stringify(details) });
    expect(sent({}, block)).toMatchObject({ reasoning_details: details });
  });

  it('thought signatures of calls are echoed, or excused', () => {
    const extra = { extra_content: { google: { thought_signature: 'sig==' } } };
    const messages = [userSays('x'), assistant(use('a', extra), use('b')), results('a', 'b')];
    const calls = (settings: Partial<ModelSettings>) =>
      listOf(messagesOf(openaiBody(settings, { messages }))[2]?.tool_calls);
    expect(calls({ preset: 'gemini' })[0]).toMatchObject(extra);
    expect(calls({ preset: 'gemini' })[1]).not.toHaveProperty('extra_content');
    expect(calls({ base_url: '' })[0]).not.toHaveProperty('extra_content');
    const foreign = [userSays('x'), assistant(use('a')), results('a')];
    const body = openaiBody({ preset: 'gemini' }, { messages: foreign });
    expect(JSON.stringify(body)).toContain('skip_thought_signature_validator');
  });
});

describe('call ids', () => {
  const wild = ['functions.now:0', '', 'x'.repeat(70), 'ünïcode id', 'call_fine'];

  it.each([
    ['openai', /^[\w.:-]{1,40}$/],
    ['mistral', /^[a-zA-Z0-9]{9}$/],
  ] as const)('%s: valid, unique, and the same in every request', (call_ids, rule) => {
    const messages = [userSays('x'), assistant(...wild.map((id) => use(id))), results(...wild)];
    const ids = () => {
      const wire = messagesOf(openaiBody({ flags: { call_ids } }, { messages: structuredClone(messages) }));
      const calls = listOf(wire[2]?.tool_calls).map(({ id }) => String(id));
      expect(wire.filter(({ role }) => role === 'tool').map(({ tool_call_id }) => tool_call_id)).toEqual(
        calls,
      );
      return calls;
    };
    const once = ids();
    for (const id of once) expect(id).toMatch(rule);
    expect(new Set(once).size).toBe(wild.length);
    expect(ids()).toEqual(once);
  });

  it('anthropic', () => {
    const messages = [userSays('x'), assistant(...wild.map((id) => use(id))), results(...wild)];
    const wire = messagesOf(anthropicBody({}, { messages }));
    const calls = listOf(wire[1]?.content).map(({ id }) => String(id));
    for (const id of calls) expect(id).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    expect(listOf(wire[2]?.content).map(({ tool_use_id }) => tool_use_id)).toEqual(calls);
  });
});

describe('anthropic', () => {
  it('merges equal roles, puts results first and drops what is empty', () => {
    const messages: Message[] = [
      userSays('one'),
      userSays('two'),
      assistant({ type: 'text', text: '' }, use('a')),
      { role: 'user', content: [{ type: 'text', text: 'wait' }, ...results('a').content] },
      userSays('three'),
    ];
    const wire = messagesOf(
      anthropicBody({ flags: { cache_control: false } }, { messages, tools: [nowTool] }),
    );
    expect(
      wire.map(({ role, content }) => [role, (content as Json[]).map(({ type, text }) => text ?? type)]),
    ).toEqual([
      ['user', ['one', 'two']],
      ['assistant', ['tool_use']],
      ['user', ['tool_result', 'wait', 'three']],
    ]);
  });

  it('signed thinking goes back as it came, to the same model only', async () => {
    await start();
    const signed = thought({ field: 'thinking', signature: signatureOf('m', 'because') });
    const redacted = thought({ field: 'thinking', thinking: '', redacted: 'EmwK==' });
    const unsigned = thought({ field: 'thinking' });
    const foreign = thought({ field: 'thinking', model: 'other', signature: 'x' });
    const messages = [userSays('x'), assistant(signed, redacted, unsigned, foreign, use('a')), results('a')];
    const { end } = await collect(anthropic({ flags: { unsigned_thinking: false } }), request({ messages }));
    expect(end.type).toBe('done');
    expect(listOf(messagesOf(server?.requests[0]?.body ?? {})[1]?.content).map(({ type }) => type)).toEqual([
      'thinking',
      'redacted_thinking',
      'tool_use',
    ]);
  });

  it('a thought survives the round trip through a reply', async () => {
    const { enqueue, requests } = await start();
    enqueue({ thinking: 'let me see', calls: [{ id: 'a', name: 'now' }] });
    const client = anthropic();
    const { end } = await collect(client, request({ tools: [nowTool] }));
    const content = end.content.map((block) => (block.type === 'tool_call' ? use(block.id) : block));
    const messages = [userSays('hi'), assistant(...content), results('a')];
    const second = await collect(client, request({ tools: [nowTool], messages }));
    expect(requests[1]?.rejected).toBeUndefined();
    expect(textIn(second.end)).toBe('result: result');
  });

  it('unsigned thinking goes back to those who send it that way', () => {
    const messages = [userSays('x'), assistant(thought({ field: 'thinking' }), use('a')), results('a')];
    const body = anthropicBody({ preset: 'anthropic-compatible' }, { messages });
    expect(listOf(messagesOf(body)[1]?.content)[0]).toEqual({
      type: 'thinking',
      thinking: 'because',
      signature: '',
    });
  });

  it('the key as a bearer token to Anthropic, as x-api-key with the old version to those who copy it', async () => {
    await start({ auth: 'x-api-key' });
    expect((await collect(anthropic())).end.type).toBe('done');
    expect(server?.requests[0]?.headers).toMatchObject({
      'x-api-key': 'k',
      'anthropic-version': '2023-06-01',
    });
    expect(server?.requests[0]?.headers).not.toHaveProperty('authorization');
    await server?.close();
    await start({ auth: 'bearer' });
    const official = anthropic({ preset: 'anthropic' });
    expect((await collect(official)).end.type).toBe('done');
    expect(server?.requests[0]?.headers).toMatchObject({ authorization: 'Bearer k' });
    const set = anthropic({ auth: 'bearer', anthropic_version: '2024-01-01' });
    await collect(set);
    expect(server?.requests[1]?.headers).toMatchObject({ 'anthropic-version': '2024-01-01' });
  });

  it('a base_url with /v1 is understood', async () => {
    await start();
    const client = anthropic({ base_url: `${server?.url}/v1/` });
    expect((await collect(client)).end.type).toBe('done');
    expect(server?.requests[0]?.path).toBe('/v1/messages');
  });

  it('a thinking budget leaves room for the answer, and is off in a chain that another model began', () => {
    const settings = { preset: 'anthropic', model: 'claude-sonnet-4-5', max_output_tokens: 4_096 } as const;
    expect(anthropicBody(settings, { thinking: 'low' })).toMatchObject({
      thinking: { budget_tokens: 2_048 },
    });
    expect(anthropicBody(settings, { thinking: 'high' })).toMatchObject({
      thinking: { budget_tokens: 2_048 },
    });
    expect(anthropicBody(settings)).not.toHaveProperty('thinking');
    expect(anthropicBody(settings, { thinking: 'low', messages: chain() })).not.toHaveProperty('thinking');
    const newer = { preset: 'anthropic', model: 'claude-sonnet-5-5' } as const;
    expect(anthropicBody(newer, { thinking: 'high', messages: chain() })).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
    });
  });
});

describe('an endpoint says what it cannot take', () => {
  it.each<[string, Partial<ModelServerOptions>, Partial<ModelRequest>]>([
    ['stream_options', { openai: { rejectParameters: ['stream_options'] } }, {}],
    ['tools with calls', { openai: { toolsWithCalls: true } }, { messages: chain() }],
    ['alternation', { openai: { alternate: true } }, { messages: [...chain(), userSays('and?')] }],
    ['reasoning demanded', { openai: { reasoningField: 'reasoning_content' } }, { messages: chain() }],
    [
      'tool_choice',
      { openai: { rejectParameters: ['tool_choice'] } },
      { tools: [nowTool], allowTools: false },
    ],
  ])('%s: learnt once, and kept', async (_, options, asked) => {
    await start(options);
    const log = fakeLog();
    const client = openai({}, log);
    expect((await collect(client, request(asked))).end.type).toBe('done');
    expect(server?.requests).toHaveLength(2);
    expect(log.lines).toMatchObject([{ level: 'info', fields: { model: 'main' } }]);
    expect((await collect(client, request(asked))).end.type).toBe('done');
    expect(server?.requests).toHaveLength(3);
  });

  it.each([
    ['Ollama', 400, 'registry.ollama.ai/library/gemma3:4b does not support tools'],
    ['OpenRouter', 404, 'No endpoints found that support tool use. Try disabling "now".'],
    ['vLLM', 400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'],
    ['llama.cpp', 500, 'tools param requires --jinja flag'],
    ['SiliconFlow', 400, 'Function call is not supported for this model.'],
  ])('a model without tools (%s): none are offered, and earlier calls are told', async (_, status, error) => {
    await start();
    server?.enqueue({ status, error });
    const client = openai();
    const asked = request({ messages: chain(), tools: [nowTool] });
    expect((await collect(client, asked)).end.type).toBe('done');
    const { body } = server!.requests[1]!;
    expect(body).not.toHaveProperty('tools');
    expect(body.messages).toEqual([
      { role: 'system', content: 'You are helpful.' },
      { role: 'user', content: 'what time is it' },
      { role: 'assistant', content: '(called now with {})' },
      { role: 'user', content: '(result: result)' },
    ]);
    await collect(client, asked);
    expect(server?.requests).toHaveLength(3);
  });

  it('a server error that has nothing to teach is no lesson', async () => {
    await start();
    server?.enqueue({ status: 500, error: 'unexpected error: max_completion_tokens unknown' });
    expect((await collect(openai())).end).toMatchObject({ error: { kind: 'overloaded' } });
    expect(server?.requests).toHaveLength(1);
  });

  it('max_completion_tokens instead of max_tokens', async () => {
    await start();
    server?.enqueue({
      status: 400,
      error:
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    });
    expect((await collect(openai())).end.type).toBe('done');
    expect(server?.requests[1]?.body).toHaveProperty('max_completion_tokens');
  });

  it('what cannot be learnt is an error, not a loop', async () => {
    await start({ openai: { rejectParameters: ['max_tokens', 'max_completion_tokens'] } });
    expect((await collect(openai())).end).toMatchObject({ type: 'failed', error: { kind: 'invalid' } });
    expect(server?.requests.length).toBeLessThan(4);
  });
});

describe('prompt caching', () => {
  const turns: Message[] = [
    userSays('[2026-11-30 Mon 11:30 GMT+8] what time is it'),
    assistant(thought(), { type: 'text', text: 'let me look' }, use('call_1'), use('call_2')),
    results('call_1', 'call_2'),
    assistant({ type: 'text', text: 'noon' }),
    userSays('thanks'),
    userSays('and in Tokyo?'),
    assistant(use('call_3')),
    { role: 'user', content: [...results('call_3').content, { type: 'text', text: 'quick!' }] },
    assistant({ type: 'text', text: 'noon too' }),
    userSays('bye'),
  ];
  /** Where a request may end: with something for the model to answer. */
  const ends = turns.flatMap((turn, index) => (turn.role === 'user' && index !== 4 ? [index + 1] : []));
  const tools = [nowTool, { ...nowTool, name: 'other' }];

  it.each(['openai', 'anthropic'] as const)(
    '%s: an earlier request is a byte prefix of the later one, across processes too',
    async (vendor) => {
      await start();
      for (const end of ends) {
        // A new client and a fresh copy each time: nothing may depend on what is remembered.
        const client = vendor === 'openai' ? openai() : anthropic();
        const messages = structuredClone(turns.slice(0, end));
        expect((await collect(client, request({ tools, messages }))).end.type).toBe('done');
      }
      const bodies = (server?.requests ?? []).map(({ raw }) =>
        raw.replaceAll(',"cache_control":{"type":"ephemeral"}', ''),
      );
      expect(bodies).toHaveLength(ends.length);
      for (const [n, body] of bodies.entries()) {
        const earlier = bodies[n - 1];
        if (earlier === undefined) continue;
        expect(earlier.endsWith(']}')).toBe(true);
        const prefix = earlier.slice(0, -2);
        expect(body.slice(0, prefix.length)).toBe(prefix);
      }
    },
  );

  it('the same client says the same, remembered or not', () => {
    const entry = resolveEntry('main', { provider: 'openai', model: 'm', base_url: 'http://x/v1' });
    const builder = openaiBuilder(entry);
    for (const end of ends) {
      const asked = request({ tools, messages: turns.slice(0, end) });
      expect(JSON.stringify(builder.build(asked))).toBe(JSON.stringify(openaiBuilder(entry).build(asked)));
    }
  });

  it('anthropic: breakpoints on the last tool, the system prompt and the two newest messages; none in the store', () => {
    const messages = structuredClone(turns.slice(0, 8));
    const body = anthropicBody({}, { tools, messages });
    const marks = (list: unknown) => (list as Json[]).map((block) => block.cache_control !== undefined);
    expect(marks(body.tools)).toEqual([false, true]);
    expect(marks(body.system)).toEqual([true]);
    const wire = messagesOf(body).map(({ content }) => marks(content));
    expect(wire.slice(0, -2).flat()).not.toContain(true);
    expect(wire.at(-2)?.at(-1)).toBe(true);
    expect(wire.at(-1)).toEqual([false, true]);
    expect(messages).toEqual(turns.slice(0, 8));
  });

  it('anthropic: never on thinking, and not at all where it is not known', () => {
    const signed = thought({ field: 'thinking', signature: 'sig' });
    const messages = [userSays('x'), assistant({ type: 'text', text: 'a' }, signed), userSays('y')];
    const content = listOf(messagesOf(anthropicBody({}, { messages }))[1]?.content);
    expect(content.map(({ cache_control }) => cache_control !== undefined)).toEqual([true, false]);
    const plain = anthropicBody({ flags: { cache_control: false } }, { messages, tools });
    expect(JSON.stringify(plain)).not.toContain('cache_control');
  });
});

describe('thinking levels', () => {
  it.each<[Partial<ModelSettings>, ModelRequest['thinking'], Json]>([
    [{ base_url: '', model: 'gpt-5' }, 'off', { reasoning_effort: 'minimal' }],
    [{ base_url: '', model: 'gpt-5.2' }, 'off', { reasoning_effort: 'none' }],
    [{ preset: 'qwen' }, 'off', { enable_thinking: false }],
    [{ preset: 'glm' }, 'high', { thinking: { type: 'enabled' } }],
    [{ preset: 'kimi', model: '' }, 'off', { thinking: { type: 'disabled' } }],
    [{ preset: 'kimi', model: 'kimi-k3' }, 'high', { reasoning_effort: 'max' }],
    [{ preset: 'deepseek', model: '' }, 'off', { thinking: { type: 'disabled' } }],
    [{ preset: 'doubao' }, 'low', { thinking: { type: 'enabled' } }],
    [{ preset: 'vllm' }, 'off', { chat_template_kwargs: { enable_thinking: false } }],
    [{ preset: 'openrouter', model: 'deepseek/deepseek-v4' }, 'off', { reasoning: { enabled: false } }],
    [{ thinking: { off: { quiet: true } } }, 'off', { quiet: true }],
  ])('%o %s', (settings, thinking, expected) => {
    expect(openaiBody({ base_url: '', ...settings }, thinking && { thinking })).toMatchObject(expected);
  });
});

describe('the key', () => {
  it.each(['openai', 'anthropic'] as const)(
    '%s: a server without keys gets no header, or the own one',
    async (vendor) => {
      await start();
      const make = vendor === 'openai' ? openai : anthropic;
      await collect(make({ api_key: '' }));
      await collect(make({ api_key: '', extra_headers: { authorization: 'Basic abc' } }));
      const [bare, own] = server?.requests ?? [];
      expect(bare?.headers).not.toHaveProperty('authorization');
      expect(bare?.headers).not.toHaveProperty('x-api-key');
      expect(own?.headers.authorization).toBe('Basic abc');
    },
  );
});
