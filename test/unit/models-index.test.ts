// Configuration → models: which entry is the default, what presets fill in, and that nothing is loaded that is not used.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { configSchema, modelSchema, type Config } from '../../config/schema.ts';
import { createModels } from '../../src/models/index.ts';
import { PRESETS, type Preset } from '../../src/models/presets.ts';
import { resolveEntry } from '../../src/models/settings.ts';
import { collect, fakeClock, fakeLog, request, textIn } from '../fakes/models.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';

let server: ModelServer | undefined;
afterEach(() => server?.close());

const DEFAULTS = {
  openai: { provider: 'openai', model: 'gpt-5', api_key: '' },
  anthropic: { provider: 'anthropic', model: 'claude-sonnet-5-5', api_key: '' },
  demo: { provider: 'demo' },
};

const models = (given: Record<string, object>, model = 'auto', agent: object = {}) => {
  const config: Config = configSchema.parse({ model, models: given, agent });
  return createModels(config, { clock: fakeClock(), log: fakeLog() });
};

describe('the default model', () => {
  it.each<[string, Record<string, object>, string]>([
    ['nothing set', DEFAULTS, 'demo'],
    ['no entries at all', {}, 'demo'],
    ['OPENAI_API_KEY', { ...DEFAULTS, openai: { ...DEFAULTS.openai, api_key: 'k' } }, 'openai'],
    ['ANTHROPIC_API_KEY', { ...DEFAULTS, anthropic: { ...DEFAULTS.anthropic, api_key: 'k' } }, 'anthropic'],
    ['an own entry before them', { mine: { preset: 'deepseek', api_key: 'k' }, ...DEFAULTS }, 'mine'],
    ['an own entry without a key', { mine: { preset: 'deepseek' }, ...DEFAULTS }, 'demo'],
    ['a local server needs no key', { mine: { preset: 'ollama', model: 'qwen3' }, ...DEFAULTS }, 'mine'],
    ['but it needs a model', { mine: { preset: 'ollama' }, ...DEFAULTS }, 'demo'],
    ['an empty list of keys', { mine: { preset: 'kimi', api_key: ['', ''] }, ...DEFAULTS }, 'demo'],
  ])('auto, %s', (_, given, expected) => {
    const made = models(given);
    expect(made.defaultName).toBe(expected);
    expect(made.main().name).toBe(expected);
    expect(made.list()[0]).toMatchObject({ id: expected, ready: true });
  });

  it('named, even without a key', () => {
    expect(models(DEFAULTS, 'anthropic').main().name).toBe('anthropic');
  });

  it('an unknown name is an error that lists the known ones', () => {
    expect(() => models(DEFAULTS).client('gpt')).toThrow(
      'no model "gpt"; there are: openai, anthropic, demo',
    );
  });

  it('list has all of them and whether they can be used', () => {
    expect(models(DEFAULTS).list()).toEqual([
      { id: 'demo', provider: 'demo', model: '', ready: true },
      { id: 'openai', provider: 'openai', model: 'gpt-5', ready: false },
      { id: 'anthropic', provider: 'anthropic', model: 'claude-sonnet-5-5', ready: false },
    ]);
  });
});

it('people are offered the default model, and those that can be used', () => {
  const mine = { preset: 'deepseek', api_key: 'k' };
  const ids = (name: string) =>
    models({ ...DEFAULTS, mine, local: { preset: 'ollama', model: 'qwen3' } }, name)
      .offered()
      .map(({ id }) => id);
  expect(ids('auto')).toEqual(['mine', 'demo', 'local']);
  expect(ids('anthropic')).toEqual(['anthropic', 'demo', 'mine', 'local']);
});

describe('calls', () => {
  it('go through retries, keys and fallbacks to the fake', async () => {
    server = await startModelServer({ keys: ['good'] });
    const made = models({
      main: {
        provider: 'openai',
        model: 'm',
        base_url: server.openaiUrl,
        api_key: ['bad', 'good'],
        fallbacks: ['spare'],
      },
      spare: { provider: 'anthropic', model: 'n', base_url: server.url, api_key: 'good' },
    });
    server.enqueue({ status: 503, error: 'busy' }, { text: 'hello' });
    const { end } = await collect(made.main());
    expect({ model: end.model, text: textIn(end) }).toEqual({ model: 'main', text: 'hello' });
    expect(
      server.requests.map(({ rejected, headers }) => [headers.authorization, Boolean(rejected)]),
    ).toEqual([
      ['Bearer bad', true],
      ['Bearer good', false],
      ['Bearer good', false],
    ]);
    server.enqueue(...Array.from({ length: 4 }, () => ({ status: 500, error: 'down' })));
    const second = await collect(made.main(), request());
    expect(second.end).toMatchObject({ type: 'done', model: 'spare' });
    expect(server.requests.at(-1)?.path).toBe('/v1/messages');
  });

  it('the same entry is the same client', () => {
    const made = models(DEFAULTS);
    expect(made.client('openai')).toBe(made.client('openai'));
  });

  it('fallbacks that name each other are no circle', async () => {
    server = await startModelServer();
    const entry = { provider: 'openai', model: 'm', base_url: server.openaiUrl, api_key: 'k' };
    const made = models({ a: { ...entry, fallbacks: ['b', 'a'] }, b: { ...entry, fallbacks: ['a'] } }, 'a');
    server.setScript(() => ({ status: 404, error: 'no such model' }));
    expect((await collect(made.main())).end).toMatchObject({ type: 'failed', error: { kind: 'invalid' } });
    expect(server.requests).toHaveLength(2);
  });
});

describe('presets', () => {
  it('the names in the schema are the presets there are', () => {
    const names = modelSchema.shape.preset
      .unwrap()
      .options.filter((name) => name !== 'auto' && name !== 'none');
    expect(names).toEqual(expect.arrayContaining(Object.keys(PRESETS)));
    expect(names).toHaveLength(Object.keys(PRESETS).length);
  });

  const resolve = (settings: object) => resolveEntry('x', modelSchema.parse(settings));

  it.each<[string, object, object]>([
    [
      'deepseek',
      { preset: 'deepseek' },
      { baseUrl: 'https://api.deepseek.com/v1', flags: { reasoning: 'required' } },
    ],
    ['qwen', { preset: 'qwen' }, { flags: { max_tokens_field: 'max_tokens' }, contextWindow: 131_072 }],
    [
      'glm',
      { preset: 'glm' },
      { flags: { stream_usage: false, tool_choice: false }, contextWindow: 200_000 },
    ],
    ['kimi', { preset: 'kimi' }, { flags: { reasoning: 'required' }, contextWindow: 262_144 }],
    ['kimi-k3', { preset: 'kimi', model: 'kimi-k3' }, { contextWindow: 1_048_576 }],
    ['minimax', { preset: 'minimax' }, { flags: { reasoning: 'tags', think_tags: true } }],
    ['doubao', { preset: 'doubao' }, { contextWindow: 256_000 }],
    ['ollama', { preset: 'ollama', model: 'x' }, { keyless: true, flags: { tool_choice: false } }],
    ['vllm', { preset: 'vllm', model: 'x' }, { keyless: true, flags: { merge_roles: true } }],
    [
      'openai',
      { provider: 'openai', model: 'gpt-5' },
      { flags: { max_tokens_field: 'max_completion_tokens' } },
    ],
    [
      'anthropic',
      { provider: 'anthropic' },
      { model: 'claude-sonnet-5-5', auth: 'bearer', anthropicVersion: '' },
    ],
    ['gemini', { preset: 'gemini' }, { flags: { call_signatures: true, call_extras: true } }],
    ['by host', { base_url: 'https://api.moonshot.ai/v1', model: 'kimi-k2.6' }, { contextWindow: 262_144 }],
    [
      'another Anthropic',
      { provider: 'anthropic', base_url: 'https://api.deepseek.com/anthropic', model: 'deepseek-flash' },
      { auth: 'x-api-key', anthropicVersion: '2023-06-01', flags: { unsigned_thinking: true } },
    ],
    [
      'by the model alone',
      { base_url: 'https://x.example/v1', model: 'Kimi-K2.6' },
      { flags: { reasoning: 'required' } },
    ],
    [
      'unknown',
      { base_url: 'https://x.example/v1', model: 'y' },
      { flags: { reasoning: 'remembered' }, contextWindow: 128_000 },
    ],
    [
      'none',
      { preset: 'none', base_url: 'https://api.openai.com/v1', model: 'y' },
      { flags: { prompt_cache_key: false } },
    ],
    [
      'own settings win',
      {
        preset: 'glm',
        context_window: 5,
        images: true,
        flags: { tool_choice: true },
        base_url: 'https://y.example',
      },
      {
        contextWindow: 5,
        images: true,
        flags: { tool_choice: true, stream_usage: false },
        baseUrl: 'https://y.example',
      },
    ],
  ])('%s', (_, settings, expected) => {
    expect(resolve(settings)).toMatchObject(expected);
  });
});

describe('loading', () => {
  /** In a process of its own: which packages were loaded. */
  async function loaded(given: Record<string, object>): Promise<string[]> {
    const code = `
      import { registerHooks } from 'node:module';
      const seen = new Set();
      registerHooks({ load(url, context, next) {
        const found = /node_modules\\/(openai|@anthropic-ai\\/sdk)\\//.exec(url);
        if (found) seen.add(found[1]);
        return next(url, context);
      } });
      const { configSchema } = await import('./config/schema.ts');
      const { createModels } = await import('./src/models/index.ts');
      const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
      const clock = { now: () => 0, sleep: async () => {} };
      const config = configSchema.parse({ models: JSON.parse(process.argv[1]), agent: { retry: { attempts: 0 } } });
      const models = createModels(config, { clock, log });
      const asked = { system: '', messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }], tools: [], allowTools: true, cacheKey: '' };
      for await (const event of models.main().stream(asked, new AbortController().signal)) void event;
      console.log(JSON.stringify([...seen]));`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '--no-warnings', '--eval', code, JSON.stringify(given)],
      { cwd: new URL('../..', import.meta.url) },
    );
    return JSON.parse(stdout) as string[];
  }

  it('the demo model loads no SDK, another model its own only', async () => {
    expect(await loaded(DEFAULTS)).toEqual([]);
    const dead = 'http://127.0.0.1:1';
    expect(await loaded({ a: { provider: 'openai', model: 'm', base_url: dead } })).toEqual(['openai']);
    expect(await loaded({ a: { provider: 'anthropic', model: 'm', base_url: dead } })).toEqual([
      '@anthropic-ai/sdk',
    ]);
  }, 30_000);
});

describe('docs/models.md', () => {
  const docs = readFileSync(new URL('../../docs/models.md', import.meta.url), 'utf8');
  /** First cells of the table under a heading. */
  const rows = (heading: string) => {
    const section = docs.split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
    return [...section.matchAll(/^\| `([\w-]+)` \|/gm)].map((match) => match[1] ?? '');
  };

  it('names every preset with its model', () => {
    expect(rows('Presets').sort()).toEqual([...Object.keys(PRESETS), 'none'].sort());
    for (const [name, preset] of Object.entries<Preset>(PRESETS))
      if (preset.model) expect(docs).toMatch(new RegExp(`^\\| \`${name}\` .*${preset.model}`, 'm'));
  });

  it('explains every flag', () => {
    const flags = Object.keys(modelSchema.shape.flags.unwrap().shape);
    expect(rows('Flags').sort()).toEqual(flags.sort());
  });
});
