// `npm run doctor`: one finding a part; what is wrong says what to do, and secrets stay unsaid.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startIlinkServer } from '../fakes/ilink-server.ts';
import { silentLog } from '../fakes/log.ts';
import { diagnose, type DoctorOptions, type Finding } from '../../src/doctor/index.ts';
import { startWebServer } from '../fakes/web-server.ts';

const { track } = useCleanups();
let cwd: string;

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'lanekeeper-doctor-'));
  await mkdir(join(cwd, 'config'));
});
afterEach(async () => {
  await rm(cwd, { recursive: true, force: true });
});

async function listen(listener: RequestListener): Promise<string> {
  const { port } = track(await startWebServer(listener));
  return String(port);
}

async function examine(
  text = '',
  env: NodeJS.ProcessEnv = {},
  options: DoctorOptions = {},
): Promise<Finding[]> {
  await writeFile(join(cwd, 'config', 'local.yaml'), text);
  const base = { PORT: '0', LANEKEEPER_DATA_DIR: join(cwd, 'data') };
  const findings: Finding[] = [];
  for await (const finding of diagnose({ ...options, cwd, env: { ...base, ...env } })) findings.push(finding);
  return findings;
}

const of = (findings: Finding[], part: string) => findings.filter((finding) => finding.part === part);

describe('the doctor', () => {
  it('finds a fresh machine well, with the demo model', async () => {
    const findings = await examine();
    expect(findings.map(({ part, state }) => `${part} ${state}`)).toEqual([
      'configuration ok',
      'server ok',
      'storage ok',
      'media ok',
      'agent ok',
      'tools ok',
      'model demo note',
      'channel web ok',
      'channel webhook ok',
    ]);
    expect(of(findings, 'model demo')[0]?.text).toContain('OPENAI_API_KEY');
  });

  it('reports only the configuration if that is wrong', async () => {
    const findings = await examine('agent: { max_stepz: 1 }');
    expect(findings).toMatchObject([{ state: 'wrong', part: 'configuration' }]);
    expect(findings[0]?.text).toContain('max_steps?');
  });

  it('says what to do when files of messages have no place', async () => {
    await writeFile(join(cwd, 'in-the-way'), '');
    const findings = await examine(`media: { dir: ${JSON.stringify(join(cwd, 'in-the-way', 'media'))} }`);
    expect(of(findings, 'media')).toMatchObject([
      { state: 'wrong', text: expect.stringContaining('check media.dir') },
    ]);
  });

  it('says what to do when Redis is away', async () => {
    const findings = await examine('', { REDIS_URL: 'redis://:do-not-show@127.0.0.1:1' });
    expect(of(findings, 'storage')).toMatchObject([
      { state: 'wrong', text: expect.stringContaining('check REDIS_URL') },
    ]);
    expect(JSON.stringify(findings)).not.toContain('do-not-show');
  });

  it('says what to do when another program has the port', async () => {
    const port = await listen((_request, response) => response.end('hello'));
    expect(of(await examine('', { PORT: port }), 'server')).toMatchObject([
      { state: 'wrong', text: expect.stringContaining('set another PORT') },
    ]);
  });

  it('sees a server of ours that runs, and leaves its database alone', async () => {
    const port = await listen((_request, response) => response.end('{"status":"ready","reasons":[]}'));
    const findings = await examine('', { PORT: port });
    expect(of(findings, 'server')).toMatchObject([{ state: 'ok', text: expect.stringContaining('running') }]);
    expect(of(findings, 'storage')).toMatchObject([
      { state: 'ok', text: expect.stringContaining('running server') },
    ]);
  });

  it('says that a running server is not ready', async () => {
    const port = await listen((_request, response) => {
      response.writeHead(503).end('{"status":"not ready","reasons":["storage: gone"]}');
    });
    expect(of(await examine('', { PORT: port }), 'server')).toMatchObject([{ state: 'wrong' }]);
  });

  it('looks for the endpoint of the model that would be used', async () => {
    const port = await listen((_request, response) => response.writeHead(404).end());
    const env = { OPENAI_API_KEY: 'sk-do-not-show', OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` };
    const findings = await examine('', env);
    expect(of(findings, 'model openai')).toMatchObject([
      { state: 'ok', text: expect.stringContaining(`127.0.0.1:${port} answers`) },
    ]);
    expect(JSON.stringify(findings)).not.toContain('do-not-show');
  });

  it('says what to do when the endpoint is away, or the key of a chosen model is missing', async () => {
    const away = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' };
    expect(of(await examine('', away), 'model openai')).toMatchObject([
      { state: 'wrong', text: expect.stringContaining('models.openai.base_url') },
    ]);
    expect(of(await examine('model: anthropic'), 'model anthropic')).toMatchObject([
      { state: 'wrong', text: expect.stringContaining('models.anthropic.api_key') },
    ]);
  });

  it('calls the model only when asked', async () => {
    const [, called] = of(await examine('', {}, { live: true }), 'model demo');
    expect(called).toMatchObject({ state: 'ok', text: expect.stringMatching(/^answered in \d+ ms$/) });
  });

  it('tells a live call that fails', async () => {
    const port = await listen((_request, response) => {
      response
        .writeHead(401, { 'content-type': 'application/json' })
        .end('{"error":{"message":"no such key"}}');
    });
    const env = { OPENAI_API_KEY: 'sk-do-not-show', OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` };
    const findings = await examine('agent: { retry: { attempts: 0 } }', env, { live: true });
    expect(of(findings, 'model openai').at(-1)).toMatchObject({ state: 'wrong' });
    expect(JSON.stringify(findings)).not.toContain('do-not-show');
  });

  it('knows whether a WeChat account is logged in', async () => {
    const ilink = track(await startIlinkServer());
    const text = `channels: { me: { type: weixin, base_url: '${ilink.url}' } }`;
    expect(of(await examine(text), 'channel me')).toEqual([
      { part: 'channel me', state: 'note', text: expect.stringContaining('nobody is logged in') },
    ]);
    const storage = await createSqliteStorage({
      file: join(cwd, 'data', 'lanekeeper.db'),
      dedupeHours: 48,
      historyTtlDays: 0,
      log: silentLog,
    });
    const login = { token: 'secret-token-of-old', baseUrl: ilink.url, botId: 'bot-1', userId: '' };
    await storage.channelState('me').set('login', login);
    await storage.close();
    const findings = await examine(text);
    expect(of(findings, 'channel me')).toMatchObject([
      { state: 'wrong', text: expect.stringContaining('scan the QR code') },
    ]);
    expect(JSON.stringify(findings)).not.toContain('secret-token');
    expect(ilink.violations).toEqual([]);
  });

  it('names the ways into each channel', async () => {
    const findings = await examine(
      'channels: { web: { enabled: false }, hook: { type: webhook, api_keys: [key-do-not-show] } }',
      { HOST: '0.0.0.0' },
    );
    expect(of(findings, 'channel web')).toMatchObject([{ text: 'disabled' }]);
    expect(of(findings, 'channel hook')[0]?.text).toContain('/webhook/hook with api keys');
    expect(JSON.stringify(findings)).not.toContain('do-not-show');
  });
});
