// A wrong setting stops the start with file, key, what was found and what is allowed: all at once, and no secret in it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig } from '../../config/load.ts';
import { ConfigError, type Problem } from '../../config/problems.ts';

let cwd: string;

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'lanekeeper-config-'));
});
afterEach(() => rm(cwd, { recursive: true, force: true }));

async function failure(text: string, env: NodeJS.ProcessEnv = {}): Promise<ConfigError> {
  await writeFile(join(cwd, 'bot.yaml'), text);
  try {
    loadConfig({ env: { LANEKEEPER_CONFIG: 'bot.yaml', ...env }, cwd });
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('the configuration was accepted');
}

const problemsOf = async (text: string, env?: NodeJS.ProcessEnv): Promise<readonly Problem[]> =>
  (await failure(text, env)).problems;

describe('a wrong configuration', () => {
  it('is told with file, line, key, found and allowed', async () => {
    expect(await problemsOf('agent:\n  max_steps: many\n')).toEqual([
      {
        where: 'bot.yaml:2',
        path: 'agent.max_steps',
        found: 'the text "many"',
        allowed: 'a whole number, 1 or more',
      },
    ]);
  });

  it('is told all at once', async () => {
    const problems = await problemsOf(
      `
agent: { max_steps: 0, on_busy: { direct: later }, retry: 5 }
server: { prot: 1 }
model: gpt
models: { main: { provider: openai, fallbacks: [backup] } }
channels: { "My Bot": { type: web } }
storage: { url: "mysql://user:pw@host" }
tools: { enabled: "\${TOOLS}" }
`,
      { PORT: 'http' },
    );
    expect(problems.map(({ path }) => path).sort()).toEqual([
      'agent.max_steps',
      'agent.on_busy.direct',
      'agent.retry',
      'channels.My Bot',
      'model',
      'models.main.fallbacks.0',
      'server.port',
      'server.prot',
      'storage.url',
      'tools.enabled',
    ]);
  });

  it('suggests the key that was meant', async () => {
    const [problem] = await problemsOf('agent: { max_step: 5 }');
    expect(problem).toMatchObject({ path: 'agent.max_step', found: 'the unknown key "max_step"' });
    expect(problem?.allowed).toMatch(/^max_steps\? The keys here are: max_steps, on_busy/);
  });

  it('suggests nothing when nothing is near', async () => {
    const [problem] = await problemsOf('server: { zebra: 5 }');
    expect(problem?.allowed).toMatch(/^host, port, /);
  });

  it('says where a key of an earlier version has gone', async () => {
    const [problem] = await problemsOf("tools: { admins: ['feishu:ou_1'] }");
    expect(problem?.allowed).toMatch(/channels\.<account>\.admins/);
  });

  it('finds unknown keys at the top, in records and in unions', async () => {
    const problems = await problemsOf(`
agents: {}
models: { m: { provider: demo, modle: x } }
channels: { webhook: { secrets: x } }
`);
    expect(problems.map(({ path, allowed }) => `${path}: ${allowed.split('?')[0]}`).sort()).toEqual([
      'agents: agent',
      'channels.webhook.secrets: secret',
      'models.m.modle: model',
    ]);
  });

  it.each([
    ['server: { port: 70000 }', 'the number 70000', 'a whole number from 0 to 65535'],
    ['server: { drain_seconds: -1 }', 'the number -1', 'a number, 0 or more'],
    ['workers: { lock_seconds: 0 }', 'the number 0', 'a number above 0'],
    [
      'server: { log_level: loud }',
      'the text "loud"',
      'one of trace, debug, info, warn, error, fatal, silent',
    ],
    ['channels: { web: { enabled: "yes" } }', 'the text "yes"', 'true or false'],
    ['tools: { enabled: now }', 'a text (not shown)', 'a list, each item a text'],
    ['channels: { team: { type: irc } }', 'the text "irc"', 'one of webhook, web'],
    ['channels: { team: {} }', 'nothing', 'one of webhook, web'],
    ['agent: [1]', 'a list', 'a map with the keys max_steps, on_busy'],
    ['- a\n- b', 'a list', 'a map with keys such as server'],
    ['just text', 'no keys', 'a map with keys such as server'],
  ])('%s: found %s, allowed %s', async (text, found, allowed) => {
    const [problem] = await problemsOf(text);
    expect(problem?.found).toBe(found);
    expect(problem?.allowed).toContain(allowed);
  });

  it('names the variable when the environment is wrong', async () => {
    expect(await problemsOf('', { PORT: 'http' })).toMatchObject([
      {
        where: 'environment variable PORT',
        path: 'server.port',
        found: 'the text "http", from the environment',
      },
    ]);
  });

  it('says which variable is not set, and how to allow that', async () => {
    expect(await problemsOf('server:\n  public_url: ${BASE_URL}')).toEqual([
      {
        where: 'bot.yaml:2',
        path: 'server.public_url',
        found: '${BASE_URL}, which is not set in the environment',
        allowed: 'set BASE_URL, or write ${BASE_URL:-} if it may be empty',
      },
    ]);
  });

  it.each(['${}', '${a b}', '${A:default}', '${A-b}'])('does not guess what %s means', async (reference) => {
    const [problem] = await problemsOf(`server: { public_url: "${reference}" }`);
    expect(problem?.allowed).toContain('${NAME} or ${NAME:-default}');
  });

  it('says where the YAML breaks, and reports a file that is missing or unreadable', async () => {
    expect(await problemsOf('agent:\n  max_steps: 1\n  max_steps: 2\n')).toMatchObject([
      { where: 'bot.yaml:3', allowed: 'each key once' },
    ]);
    expect(await problemsOf('agent:\n\tmax_steps: 1\n')).toMatchObject([{ where: 'bot.yaml:2' }]);
    expect(await problemsOf('', { LANEKEEPER_CONFIG: 'gone.yaml' })).toMatchObject([
      { where: 'gone.yaml', found: "a file that can't be read (ENOENT)" },
    ]);
  });

  it('reads well', async () => {
    const { message } = await failure('agent: { max_steps: many }');
    expect(message).toBe(
      [
        'The configuration is not valid (1 problem):',
        '  bot.yaml:1',
        '    agent.max_steps',
        '    found:   the text "many"',
        '    allowed: a whole number, 1 or more',
      ].join('\n'),
    );
  });
});

describe('a secret', () => {
  const SECRET = 'sk-do-not-show-me-0123456789';

  it.each([
    ['as a wrong list', `channels: { webhook: { api_keys: ${SECRET} } }`],
    ['one level too high', `models: { main: ${SECRET} }`],
    ['under a key with a typo', `models: { main: { provider: demo, api_kye: ${SECRET} } }`],
    ['where a number belongs', `agent: { max_steps: ${SECRET} }`],
    ['where a number belongs, short', 'agent: { max_steps: sk-do-not-show-me }'],
    ['in a URL', 'storage: { url: "https://user:do-not-show-me@host" }'],
    ['as a model name that is not there', `model: ${SECRET}`],
    ['as a header', `models: { m: { provider: demo, extra_headers: { a: [do-not-show-me] } } }`],
    ['in broken YAML', `models: { main: "${SECRET} }`],
    ['in broken YAML, as a scalar', `a: "x" ${SECRET}: b`],
    ['from the environment', 'agent: { max_steps: "${KEY}" }'],
    ['from the environment, short', 'agent: { max_steps: "${SHORT}" }'],
  ])('is never shown: %s', async (_name, text) => {
    const error = await failure(text, { KEY: SECRET, SHORT: 'sk-do-not-show-me' });
    expect(error.message).not.toContain('do-not-show-me');
    expect(JSON.stringify(error.problems)).not.toContain('do-not-show-me');
  });
});
