// Layers: default.yaml, the operator's file, the environment. What wins, what merges, what is filled in.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig } from '../../config/load.ts';

let cwd: string;

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'lanekeeper-config-'));
});
afterEach(() => rm(cwd, { recursive: true, force: true }));

async function write(file: string, text: string): Promise<void> {
  await mkdir(dirname(join(cwd, file)), { recursive: true });
  await writeFile(join(cwd, file), text);
}

const load = (env: NodeJS.ProcessEnv = {}) => loadConfig({ env, cwd }).config;

async function loadText(text: string, env: NodeJS.ProcessEnv = {}) {
  await write('config/local.yaml', text);
  return load(env);
}

describe('a configuration', () => {
  it('needs no file and no variable', () => {
    const config = load();
    expect(config.server).toMatchObject({ host: '127.0.0.1', port: 3000 });
    expect(config.storage.url).toBe('');
    expect(Object.keys(config.models)).toEqual(['openai', 'anthropic', 'demo']);
    // Feishu and WeChat are there, and off until they have an app id and a puppet.
    expect(Object.keys(config.channels)).toEqual(['web', 'webhook', 'feishu', 'wechat']);
    expect(config.channels['feishu']).toMatchObject({ app_id: '' });
    expect(config.channels['wechat']).toMatchObject({ puppet: '' });
  });

  it('merges maps and replaces lists', async () => {
    const config = await loadText(`
agent: { retry: { attempts: 7 } }
tools: { enabled: [] }
channels: { webhook: { api_keys: [one, two] } }
`);
    expect(config.agent.retry).toEqual({ attempts: 7, base_ms: 500, max_ms: 60_000 });
    expect(config.tools.enabled).toEqual([]);
    expect(config.channels['webhook']).toMatchObject({
      type: 'webhook',
      api_keys: ['one', 'two'],
      enabled: true,
    });
    expect(config.channels['web']).toMatchObject({ enabled: true });
  });

  it('takes an empty section for nothing said', async () => {
    expect((await loadText('agent:\nchannels:\n')).agent.max_steps).toBe(100);
    expect((await loadText('')).agent.max_steps).toBe(100);
    expect((await loadText('# only a comment\n')).agent.max_steps).toBe(100);
  });

  it('replaces an entry that becomes another kind', async () => {
    const { models } = await loadText('models: { openai: { provider: demo } }');
    expect(models['openai']).toMatchObject({ provider: 'demo', model: '' });
  });

  it("puts the operator's own models before the ready-made ones, for model: auto", async () => {
    const { models } = await loadText('models: { mine: { provider: demo } }');
    expect(Object.keys(models)[0]).toBe('mine');
  });

  it('reads the file that LANEKEEPER_CONFIG names instead of config/local.yaml', async () => {
    await write('config/local.yaml', 'agent: { max_steps: 3 }');
    await write('other.yaml', 'agent: { max_batch: 4 }');
    const { config, files } = loadConfig({ env: { LANEKEEPER_CONFIG: 'other.yaml' }, cwd });
    expect(config.agent).toMatchObject({ max_steps: 100, max_batch: 4 });
    expect(files).toContain(join(cwd, 'other.yaml'));
  });

  it('names config/local.yaml among its files before it exists, so that it can be watched', () => {
    expect(loadConfig({ env: {}, cwd }).files).toContain(join(cwd, 'config', 'local.yaml'));
  });

  it('lets the environment win', async () => {
    const config = await loadText('server: { port: 1, host: a }\nstorage: { url: "redis://file" }', {
      PORT: '4000',
      HOST: '0.0.0.0',
      REDIS_URL: 'redis://environment',
      LANEKEEPER_DATA_DIR: '/data',
      ADMIN_TOKEN: 'secret',
      LOG_LEVEL: 'debug',
    });
    expect(config.server).toMatchObject({
      port: 4000,
      host: '0.0.0.0',
      admin_token: 'secret',
      log_level: 'debug',
    });
    expect(config.storage).toMatchObject({ url: 'redis://environment', data_dir: '/data' });
  });

  it('takes an empty variable for an unset one', async () => {
    const config = await loadText('server: { port: 1 }', { PORT: '', REDIS_URL: '' });
    expect(config.server.port).toBe(1);
    expect(config.storage.url).toBe('');
  });

  it('reads keys of the ready-made models from the environment', () => {
    const { models } = load({
      OPENAI_API_KEY: 'k1',
      ANTHROPIC_API_KEY: 'k2',
      OPENAI_BASE_URL: 'http://127.0.0.1/v1',
    });
    expect(models['openai']).toMatchObject({ api_key: 'k1', base_url: 'http://127.0.0.1/v1' });
    expect(models['anthropic']).toMatchObject({ api_key: 'k2' });
  });
});

describe('a reference to the environment', () => {
  it('is filled in after parsing, so that a value can not become YAML', async () => {
    const nasty = 'x", admin_token: evil }\n  port: 9';
    const config = await loadText('server: { public_url: "${EVIL}" }', { EVIL: nasty });
    expect(config.server).toMatchObject({ public_url: nasty, admin_token: '', port: 3000 });
  });

  it('becomes the number or boolean that belongs there', async () => {
    const config = await loadText(
      'server: { port: "${P}", drain_seconds: "${D:-1.5}" }\nmodels: { m: { provider: demo, images: "${I}" } }',
      { P: '8080', I: 'false' },
    );
    expect(config.server).toMatchObject({ port: 8080, drain_seconds: 1.5 });
    expect(config.models['m']?.images).toBe(false);
  });

  it('stays a text where a text belongs', async () => {
    const config = await loadText('models: { m: { provider: demo, model: "${M}" } }', { M: '123' });
    expect(config.models['m']?.model).toBe('123');
  });

  it('takes its default when unset or empty', async () => {
    const text = 'models: { m: { provider: demo, model: "a-${ONE:-one}-${TWO:-two}-${THREE:-}" } }';
    expect((await loadText(text, { TWO: '' })).models['m']?.model).toBe('a-one-two-');
  });

  it('is left alone behind $$', async () => {
    const text = 'agent: { empty_reply_text: "costs $${PRICE} or $5" }';
    expect((await loadText(text)).agent.empty_reply_text).toBe('costs ${PRICE} or $5');
  });

  it('works in lists', async () => {
    const text = 'channels: { webhook: { api_keys: ["${A}", b] } }';
    expect((await loadText(text, { A: 'a' })).channels['webhook']).toMatchObject({ api_keys: ['a', 'b'] });
  });
});

describe('YAML', () => {
  it('may use anchors and merge keys', async () => {
    const config = await loadText(`
models:
  a: &base { provider: demo, context_window: 9000 }
  b: { <<: *base, model: other }
`);
    expect(config.models['b']).toMatchObject({ provider: 'demo', context_window: 9000, model: 'other' });
  });

  it('may not expand without bound', async () => {
    const levels = Array.from({ length: 12 }, (_, level) =>
      level === 0
        ? 'l0: &l0 [x, x]'
        : `l${level}: &l${level} [${Array.from({ length: 9 }, () => `*l${level - 1}`).join()}]`,
    );
    await expect(loadText(levels.join('\n'))).rejects.toThrow('expands without bound');
  });

  it('may not be nested until the stack ends', async () => {
    await expect(loadText(`agent: ${'['.repeat(100_000)}`)).rejects.toThrow('The configuration is not valid');
  });

  it('does not reach prototypes', async () => {
    await expect(
      loadText('__proto__: { polluted: 1 }\nagent: { __proto__: { max_steps: 5 } }'),
    ).rejects.toThrow('__proto__');
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });
});
