// Files on the whole server and both backends: a picture from Feishu reaches the model as a picture, a tool's file reaches Feishu
// and a callback; and a process that is killed between a tool's result and the commit loses and doubles nothing.
import { mkdtemp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups, type Cleanups } from '../fakes/cleanups.ts';
import { APP_ID, APP_SECRET, messageEvent, startFeishuServer } from '../fakes/feishu-server.ts';
import { png } from '../fakes/media.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { picturesIn } from '../fakes/model/pictures.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { startServer, withModel, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';

const PATIENCE = { timeout: 20_000 };
const CSV = 'n,square\n1,1\n2,4\n3,9';

/** The guide's tool that makes a file, counting its executions outside of the server. */
async function writeTool(folder: string): Promise<() => Promise<number>> {
  const guide = await readFile(join(import.meta.dirname, '../../docs/writing-a-tool.md'), 'utf8');
  const code = [...guide.matchAll(/^```ts\n(.*?)^```/gmsu)][2]?.[1] ?? '';
  const runs = join(folder, 'runs');
  await mkdir(join(folder, 'tools'), { recursive: true });
  await writeFile(
    join(folder, 'tools', 'squares.ts'),
    `import { appendFileSync } from 'node:fs';\n${code}`.replace(
      /(async execute\(.*\) \{)/,
      `$1 appendFileSync(${JSON.stringify(runs)}, 'x');`,
    ),
  );
  return async () => (await readFile(runs, 'utf8').catch(() => '')).length;
}

async function setUp({ later, track }: Cleanups, backend: 'sqlite' | 'redis') {
  const feishu = track(await startFeishuServer());
  const model = track(await startModelServer());
  const receiver = track(await startCallbackReceiver());
  const redis = backend === 'redis' ? track(await startRedis()) : undefined;
  const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-media-'));
  later(() => rm(dataDir, { recursive: true, force: true }));
  const executions = await writeTool(dataDir);
  const config = withModel(model.openaiUrl, {
    agent: { retry: { attempts: 0 } },
    workers: { lock_seconds: 2, sweep_seconds: 1 },
    tools: { enabled: ['send_file'], folder: join(dataDir, 'tools') },
    channels: {
      webhook: { type: 'webhook', api_keys: [API_KEY], allow_private_callbacks: true },
      team: { type: 'feishu', app_id: APP_ID, app_secret: APP_SECRET, domain: feishu.url, streaming: false },
    },
  });
  const record = join(dataDir, 'record');
  const entry = join(import.meta.dirname, '../fakes/fault-server.ts');
  const launch = async (hold = '') => {
    const env = { HOLD: hold, RECORD: record };
    const server = track(
      await startServer({ config, dataDir, entry, env, ...(redis ? { redisUrl: redis.url } : {}) }),
    );
    // Not feishu.connected(): the vendor's client loses what comes before it listens.
    await server.line(/long connection is up/);
    return server;
  };
  const recorded = async (what: string) =>
    (await readFile(record, 'utf8').catch(() => '')).includes(`"${what}"`);
  return { feishu, model, receiver, dataDir, executions, launch, recorded };
}

/** All that the server wrote down, but the files themselves. */
async function written(dataDir: string): Promise<string> {
  const names = (await readdir(dataDir)).filter((name) => name.startsWith('lanekeeper.db'));
  return (await Promise.all(names.map((name) => readFile(join(dataDir, name), 'latin1')))).join('');
}

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  const shared = useCleanups(afterAll);
  let system: Awaited<ReturnType<typeof setUp>>;
  /** Its runs wait in some chats; killed by the first test. */
  let first: ServerProcess;
  beforeAll(async () => {
    system = await setUp(shared, backend);
    first = await system.launch('1');
  });

  test('killed after a tool’s result was written: answered once, with the file, which the key opens', async () => {
    const { receiver, executions, launch, recorded } = system;
    // Waits for ever once its tool's result is journaled.
    const conversation = 'journaled-1';
    await createWebhookClient(() => first.url).send('use:squares{"count":3}', {
      id: 'm1',
      conversation,
      body: { callback_url: receiver.url },
    });
    await vi.waitFor(async () => expect(await recorded('held')).toBe(true), PATIENCE);
    await first.kill('SIGKILL');
    const second = await launch();
    const { status, reply } = await createWebhookClient(() => second.url).settled('m1');
    const attachments = [
      {
        type: 'file',
        name: 'squares.csv',
        media_type: 'text/csv',
        size: CSV.length,
        url: expect.stringMatching(/^\/webhook\/webhook\/media\//) as string,
      },
    ];
    expect({ status, reply }).toMatchObject({ status: 'done', reply: { attachments } });
    await vi.waitFor(() => expect(receiver.received).toHaveLength(1), PATIENCE);
    expect(receiver.received[0]?.body['reply']).toEqual(reply);
    expect(await executions()).toBe(1);

    const { url } = (reply as unknown as { attachments: [{ url: string }] }).attachments[0];
    const at = new URL(url, second.url);
    expect((await fetch(at)).status).toBe(401);
    const got = await fetch(at, { headers: { authorization: `Bearer ${API_KEY}` } });
    expect(await got.text()).toBe(CSV);
    // An answer later, to be sure that there is no second one.
    await createWebhookClient(() => second.url).send('hello', {
      id: 'm2',
      conversation,
      body: { callback_url: receiver.url },
    });
    await vi.waitFor(() => expect(receiver.received).toHaveLength(2), PATIENCE);
    expect(receiver.received[1]?.body).toMatchObject({ id: 'm2', reply: { text: 'echo: hello' } });
  });

  test('Feishu: the model sees the picture, in this run and the next; tools’ files arrive as files', async () => {
    const { feishu, dataDir } = system;
    const model = system.model.renewed();
    feishu.files.set('img_1', png('a cat'));
    await feishu.push(messageEvent({ id: 'om_1', type: 'image', content: { image_key: 'img_1' } }));
    await vi.waitFor(() => expect(feishu.messages).toHaveLength(1), PATIENCE);
    await feishu.push(
      messageEvent({
        id: 'om_2',
        text: 'use:squares{"count":3} use:send_file{"name":"a.md","content":"# A"}',
      }),
    );
    await vi.waitFor(() => expect(feishu.messages).toHaveLength(4), PATIENCE);
    const sent = model.requests.map(({ body }) =>
      picturesIn(body).map(({ bytes }) => bytes.toString('base64')),
    );
    expect(sent).toEqual(model.requests.map(() => [png('a cat').toString('base64')]));
    expect(model.requests).toHaveLength(3);
    // Each request begins as the one before.
    const messages = model.requests.map(({ body }) =>
      (body['messages'] as unknown[]).map((one) => JSON.stringify(one)),
    );
    for (const [n, before] of messages.slice(0, -1).entries())
      expect(messages[n + 1]!.slice(0, before.length)).toEqual(before);
    expect(feishu.messages.slice(1).map(({ type }) => type)).toEqual(['post', 'file', 'file']);
    expect(feishu.uploads).toEqual([
      { path: '/im/v1/files', size: expect.any(Number) as number },
      { path: '/im/v1/files', size: expect.any(Number) as number },
    ]);
    if (backend === 'sqlite') {
      const stored = await written(dataDir);
      expect(stored).toContain('media:');
      expect(stored).not.toContain(png('a cat').toString('base64').slice(0, 32));
    }
  });
});
