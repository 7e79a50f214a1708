// A message that ends its process at every attempt: given up after max_attempts and answered, and the lane goes on. Listed with its
// error; asked again once it can be survived, it is answered, and gone from the list.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';
import { supervise } from './campaign/process.ts';

const ENTRY = join(import.meta.dirname, '../fakes/fault-server.ts');
const MAX_ATTEMPTS = 3;

const { later } = useCleanups();

test.each(['sqlite', 'redis'] as const)('on %s', async (backend) => {
  const model = await startModelServer();
  later(() => model.close());
  const config = withModel(model.openaiUrl, {
    workers: { lock_seconds: 1, sweep_seconds: 2, max_attempts: MAX_ATTEMPTS },
    tools: { enabled: ['crash'] },
    channels: { webhook: { type: 'webhook', api_keys: [API_KEY] } },
  });
  const redis = backend === 'redis' ? await startRedis() : undefined;
  if (redis) later(() => redis.close());
  const common = { entry: ENTRY, config, ...(redis ? { redisUrl: redis.url } : {}) };
  const gateway = redis && (await startServer({ ...common, args: ['--role', 'gateway'] }));
  if (gateway) later(() => gateway.close());
  const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-poison-'));
  later(() => rm(dataDir, { recursive: true, force: true }));
  const cured = join(dataDir, 'cured');
  const worker = supervise('worker', () =>
    startServer({ ...common, dataDir, args: ['--role', redis ? 'worker' : 'all'], env: { CURED: cured } }),
  );
  later(() => worker.close());
  await worker.up();

  const client = createWebhookClient(() => gateway?.url ?? worker.current()?.url ?? 'http://127.0.0.1:9');
  const group = { group: true, mentioned: true };
  await client.send('use:crash', { id: 'poison', body: group });
  // Embedded, the process may be gone: it is sent until it is taken.
  const post = () => client.send('hello', { id: 'next', body: group }).catch(() => undefined);
  while ((await post()) === undefined) await worker.up();

  const poison = await client.settled('poison', 90_000);
  expect(poison.status).toBe('failed');
  expect(poison.reply?.text).toMatch(/gave up/);
  expect((await client.settled('next')).status).toBe('done');
  // One process for each attempt, and the one that gave up; on a busy machine a lease may run out before the crash.
  const starts = worker.starts();
  expect(starts).toBeGreaterThan(1);
  expect(starts).toBeLessThanOrEqual(MAX_ATTEMPTS + 1);
  const url = gateway?.url ?? worker.current()!.url;
  const { messages, pending } = await readConversation(url, 'webhook:c1', ADMIN_TOKEN);
  expect(pending).toBe(0);
  expect(messages.flatMap(({ id }) => id ?? [])).toEqual(['poison', 'next']);
  // Put aside with its error, for an operator to look at and to ask again.
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  const listed = async () => {
    const answer = await fetch(`${url}/api/messages?state=failed`, { headers });
    return ((await answer.json()) as { items: unknown[] }).items;
  };
  expect(await listed()).toMatchObject([
    {
      id: 'poison',
      conversation: 'webhook:c1',
      text: 'use:crash',
      error: expect.stringMatching(`^given_up: ${MAX_ATTEMPTS} attempts`),
    },
  ]);

  await writeFile(cured, '');
  const retry = () =>
    fetch(`${url}/api/conversations/webhook%3Ac1/messages/poison/retry`, { method: 'POST', headers });
  expect((await retry()).status).toBe(202);
  while ((await client.settled('poison')).status !== 'done') await setImmediate();
  expect(await listed()).toEqual([]);
  expect((await retry()).status).toBe(404);
  const after = await readConversation(url, 'webhook:c1', ADMIN_TOKEN);
  expect(after.pending).toBe(0);
  const added = after.messages.slice(messages.length);
  expect(added.filter(({ role }) => role === 'user').flatMap(({ id }) => id ?? [])).toEqual(['poison']);
  // Answered once, by one run, which has not ended the process.
  expect(new Set(added.map(({ run }) => run)).size).toBe(1);
  expect(added.at(-1)?.role).toBe('assistant');
  expect(worker.starts()).toBe(starts);
});
