// More parsers of bytes from outside, whatever comes: streams of models that are cut or garbled on the wire, results of MCP
// tools, SKILL.md files, and what is posted to Feishu's address; and no half character goes out to a model. See the table in
// docs/threat-model.md.
import { createCipheriv, createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import * as fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { createReceiver } from '../../channels/feishu/webhook.ts';
import type { Message } from '../../src/domain/messages.ts';
import { createAnthropicClient } from '../../src/models/anthropic/client.ts';
import { createOpenAIClient } from '../../src/models/openai/client.ts';
import { resolveEntry } from '../../src/models/settings.ts';
import { toolResult } from '../../src/tools/mcp/result.ts';
import { createSkillsSource } from '../../src/tools/skills.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { silentLog } from '../fakes/log.ts';
import { collect, request, userSays } from '../fakes/models.ts';
import { startWebServer } from '../fakes/web-server.ts';

const { later } = useCleanups();

/** Bytes of which a few are changed, taken out or put in, or the end is missing. */
const garbled = (whole: Buffer) =>
  fc
    .record({
      changes: fc.array(
        fc.record({
          at: fc.nat(whole.length - 1),
          cut: fc.nat(3),
          put: fc.oneof(
            fc.uint8Array({ maxLength: 4 }),
            fc.constantFrom('\n\n', '\r', 'data: ', '}', '"', '\u2028'),
          ),
        }),
        { maxLength: 6 },
      ),
      end: fc.oneof(
        { weight: 2, arbitrary: fc.constant(whole.length) },
        { weight: 1, arbitrary: fc.nat(whole.length) },
      ),
    })
    .map(({ changes, end }) => {
      let bytes = whole.subarray(0, end);
      for (const { at, cut, put } of changes)
        bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from(put as string), bytes.subarray(at + cut)]);
      return bytes;
    });

describe('streams of models', () => {
  let bytes: Buffer = Buffer.alloc(0);
  let asked: Buffer[] = [];
  let url = '';
  const { track } = useCleanups(afterAll);
  beforeAll(async () => {
    // The SDKs look into the environment by themselves.
    for (const name of Object.keys(process.env))
      if (/^(?:OPENAI|ANTHROPIC)_/.test(name)) vi.stubEnv(name, undefined);
    const server = await startWebServer((incoming, response) => {
      asked = [];
      incoming.on('data', (chunk: Buffer) => asked.push(chunk));
      response.setHeader('content-type', 'text/event-stream');
      // In pieces, so that characters and lines are cut as well.
      const third = Math.ceil(bytes.length / 3);
      for (let n = 0; n < 3; n += 1) response.write(bytes.subarray(n * third, (n + 1) * third));
      response.end();
    });
    ({ url } = track(server));
  });
  afterAll(() => void vi.unstubAllEnvs());

  const sse = (events: readonly unknown[], named: boolean) =>
    Buffer.from(
      events
        .map((event) => {
          const name = named ? `event: ${(event as { type: string }).type}\n` : '';
          return `${name}data: ${JSON.stringify(event)}\n\n`;
        })
        .join('') + (named ? '' : 'data: [DONE]\n\n'),
    );
  const anthropic = sse(
    [
      {
        type: 'message_start',
        message: {
          id: 'm',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          stop_reason: null,
          usage: { input_tokens: 5, output_tokens: 1 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: '想一想' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'c2ln' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: '你好 😀' } },
      { type: 'content_block_stop', index: 1 },
      {
        type: 'content_block_start',
        index: 2,
        content_block: { type: 'tool_use', id: 't', name: 'now', input: {} },
      },
      {
        type: 'content_block_delta',
        index: 2,
        delta: { type: 'input_json_delta', partial_json: '{"zone":"UTC"}' },
      },
      { type: 'content_block_stop', index: 2 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'tool_use', stop_sequence: null },
        usage: { output_tokens: 9 },
      },
      { type: 'message_stop' },
    ],
    true,
  );
  const chunk = (delta: object, finish: string | null = null) => ({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 0,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const openai = sse(
    [
      chunk({ role: 'assistant', content: '' }),
      chunk({ reasoning_content: '想一想' }),
      chunk({ content: '你好 😀 <think>x</think>' }),
      chunk({
        tool_calls: [
          { index: 0, id: 't', type: 'function', function: { name: 'now', arguments: '{"zone":' } },
        ],
      }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '"UTC"}' } }] }),
      chunk({}, 'tool_calls'),
      { ...chunk({}), choices: [], usage: { prompt_tokens: 5, completion_tokens: 9, total_tokens: 14 } },
    ],
    false,
  );

  const entry = (provider: 'openai' | 'anthropic') =>
    resolveEntry('main', {
      provider,
      model: 'm',
      base_url: provider === 'openai' ? `${url}/v1` : url,
      api_key: 'sk-test-0123456789abcdef',
    });

  const clientOf = (vendor: 'openai' | 'anthropic') =>
    vendor === 'openai'
      ? createOpenAIClient(entry(vendor), { log: silentLog })
      : createAnthropicClient(entry(vendor));
  /** With an answer that is whole. */
  const vendors = [
    ['openai', openai],
    ['anthropic', anthropic],
  ] as const;

  it.each(vendors)('of %s end as done or as failed, whatever the bytes', async (vendor, whole) => {
    const client = clientOf(vendor);
    const ends = new Set<string>();
    const call = async (sent: Buffer) => {
      bytes = sent;
      const { end } = await collect(client);
      ends.add(end?.type ?? 'none');
    };
    await call(whole);
    expect([...ends]).toEqual(['done']);
    await fc.assert(fc.asyncProperty(garbled(whole), call), { numRuns: 120 });
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 80 }), (sent) => call(Buffer.from(sent))),
      { numRuns: 30 },
    );
    expect([...ends].toSorted()).toEqual(['done', 'failed']);
  });

  it.each(vendors)(
    'of %s are asked for without half characters, whatever was said',
    async (vendor, whole) => {
      const client = clientOf(vendor);
      bytes = whole;
      const unit = fc.constantFrom('\ud83d', '\ude00', '😀', '\\', '\\ud83d', '"', 'a', '\n');
      const words = fc.array(unit, { minLength: 1, maxLength: 8 }).map((units) => `x${units.join('')}x`);
      const call = async (system: string, said: string, result: string) => {
        const block = { type: 'tool_use' as const, id: 't', name: 'now', input: { [said]: result } };
        const messages: Message[] = [
          userSays(said),
          { role: 'assistant', content: [block] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: result }] },
        ];
        await collect(client, request({ system, messages }));
        const strings: string[] = [];
        const keep = (key: string, value: unknown): unknown => {
          strings.push(key);
          if (typeof value === 'string') strings.push(value);
          // Arguments are JSON within JSON.
          if (key === 'arguments') JSON.parse(String(value), keep);
          return value;
        };
        JSON.parse(Buffer.concat(asked).toString('utf8'), keep);
        for (const string of strings) expect(string.isWellFormed()).toBe(true);
        for (const sent of [system, said, result]) expect(strings).toContain(sent.toWellFormed());
      };
      await fc.assert(fc.asyncProperty(words, words, words, call), { numRuns: 60 });
    },
  );
});

describe('results of MCP tools', () => {
  it('become results for the model, whatever the server says', () => {
    const block = fc.oneof(
      fc.record({ type: fc.constant('text'), text: fc.string({ unit: 'binary' }) }),
      fc.record({ type: fc.constantFrom('image', 'audio'), data: fc.base64String(), mimeType: fc.string() }),
      fc.record({
        type: fc.constant('resource'),
        resource: fc.oneof(
          fc.record({ uri: fc.string(), text: fc.string() }),
          fc.record({ uri: fc.string(), blob: fc.base64String() }),
        ),
      }),
      fc.record({ type: fc.constant('resource_link'), uri: fc.string(), name: fc.string() }),
      fc.anything(),
    );
    const result = fc.oneof(
      fc.record(
        {
          content: fc.oneof(fc.array(block, { maxLength: 4 }), fc.anything()),
          isError: fc.oneof(fc.boolean(), fc.anything()),
          structuredContent: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.anything()),
        },
        { requiredKeys: [] },
      ),
      fc.anything(),
    );
    let taken = 0;
    fc.assert(
      fc.property(result, (value) => {
        // As the SDK does; what isn't of the protocol never comes further.
        const parsed = CallToolResultSchema.safeParse(value);
        if (!parsed.success) return;
        taken += 1;
        const { content, display } = toolResult(parsed.data, 'Tool', taken % 2 === 0);
        if (typeof content !== 'string')
          for (const { type } of content) expect(['text', 'image']).toContain(type);
        expect((display ?? '').length).toBeLessThan(200);
      }),
      { numRuns: 500 },
    );
    expect(taken).toBeGreaterThan(20);
  });
});

describe('SKILL.md', () => {
  it('is a skill or a problem that is told, whatever the bytes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-skills-'));
    later(() => rm(folder, { recursive: true }));
    await mkdir(join(folder, 'one'));
    await mkdir(join(folder, 'good'));
    await writeFile(
      join(folder, 'good', 'SKILL.md'),
      '---\nname: good\ndescription: It works.\n---\nDo it.\n',
    );
    const yaml = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.jsonValue().map((value) => JSON.stringify(value)),
      fc.constantFrom(
        'a: &a [*a]',
        'name: !!js/function x',
        '? ',
        'name: one\ndescription: |\n  x',
        '%YAML 9.9',
      ),
      fc.record({ name: fc.anything(), description: fc.anything() }).map((value) => JSON.stringify(value)),
    );
    const file = fc.oneof(
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)) },
      { weight: 3, arbitrary: yaml.map((text) => Buffer.from(`---\n${text}\n---\nbody`)) },
    );
    await fc.assert(
      fc.asyncProperty(file, async (bytes) => {
        await writeFile(join(folder, 'one', 'SKILL.md'), bytes);
        const skills = createSkillsSource({ folder, log: silentLog });
        const prompt = await skills.prompt();
        expect(prompt).toContain('good');
        expect(prompt.isWellFormed()).toBe(true);
        expect(prompt.length).toBeLessThan(3_000);
        const told = [...skills.problems().values()].join('');
        expect(told !== '' || prompt.includes('one')).toBe(true);
      }),
      { numRuns: 100 },
    );
  });
});

describe('what is posted to Feishu’s address', () => {
  const KEY = 'an-encrypt-key';
  const NOW = Date.UTC(2026, 10, 30);
  const events: unknown[] = [];
  afterEach(() => events.splice(0));
  const receiver = (settings: { encrypt_key: string; verification_token: string }) =>
    createReceiver({
      settings: { app_id: 'cli_a', ...settings },
      handlers: { 'im.message.receive_v1': async (event) => void events.push(event) },
      log: silentLog,
      now: () => NOW,
    });
  const text = fc.string({ unit: 'binary', maxLength: 40 });
  const clear = fc.oneof(
    fc.json(),
    fc
      .record({ event: fc.anything(), token: fc.constantFrom('t', 'u') })
      .map(({ event, token }) =>
        JSON.stringify({ header: { event_type: 'im.message.receive_v1', token, app_id: 'cli_a' }, event }),
      ),
    fc
      .record({
        type: fc.oneof(fc.constant('url_verification'), fc.anything()),
        challenge: fc.anything(),
        token: fc.oneof(fc.constant('t'), fc.anything()),
        header: fc.oneof(
          fc.record({
            event_type: fc.constantFrom('im.message.receive_v1', '__proto__', 'x'),
            token: fc.constantFrom('t', 'u'),
          }),
          fc.anything(),
        ),
        event: fc.anything(),
      })
      .map((value) => JSON.stringify(value)),
  );
  const encrypt = (value: string) => {
    const cipher = createCipheriv(
      'aes-256-cbc',
      createHash('sha256').update(KEY).digest(),
      Buffer.alloc(16, 7),
    );
    return Buffer.concat([Buffer.alloc(16, 7), cipher.update(value), cipher.final()]).toString('base64');
  };
  const bodies = fc.oneof(
    fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
    clear.map((value) => Buffer.from(value)),
    fc
      .oneof(clear.map(encrypt), fc.base64String({ maxLength: 200 }), text)
      .map((encrypted) => Buffer.from(JSON.stringify({ encrypt: encrypted }))),
  );
  const headers = fc.record({
    timestamp: fc.oneof(fc.constant(String(NOW / 1000)), text),
    nonce: text,
    signature: text,
    sign: fc.boolean(),
  });

  /** One that is let in, so that both ends are seen whatever else is drawn. */
  const GOOD = JSON.stringify({
    header: { event_type: 'im.message.receive_v1', token: 't', app_id: 'cli_a' },
    event: {},
  });
  const SIGNED = { timestamp: String(NOW / 1000), nonce: 'n', signature: '', sign: true };
  const sealed = (value: string) => Buffer.from(JSON.stringify({ encrypt: encrypt(value) }));

  it.each([
    ['with an encrypt key', { encrypt_key: KEY, verification_token: 't' }, true],
    ['with a token only', { encrypt_key: '', verification_token: 't' }, false],
  ])('%s is answered, and nothing unsigned gets in', async (_name, settings, signs) => {
    const receive = receiver(settings);
    const statuses = new Set<number>();
    await fc.assert(
      fc.asyncProperty(bodies, headers, async (body, { timestamp, nonce, signature, sign }) => {
        const made = createHash('sha256').update(`${timestamp}${nonce}${KEY}`).update(body).digest('hex');
        const before = events.length;
        const answer = await receive({
          headers: {
            'x-lark-request-timestamp': timestamp,
            'x-lark-request-nonce': nonce,
            'x-lark-signature': sign ? made : signature,
          },
          body,
        });
        statuses.add(answer.status);
        expect([200, 400, 401]).toContain(answer.status);
        if (signs && !sign) expect(events.length).toBe(before);
      }),
      { numRuns: 600, examples: signs ? [[sealed(GOOD), SIGNED]] : [[Buffer.from(GOOD), SIGNED]] },
    );
    expect(statuses).toContain(200);
    expect(statuses).toContain(401);
  });
});
