// A rolling upgrade on Redis: a worker is drained in the middle of a tool and another one goes on from its journal, at once and
// without doing again what was done.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';

const { later, track } = useCleanups();

/** Writes a line for each execution; hangs the first time if told so, whatever its signal says. */
const tool = (file: string, idempotent: boolean, hangs: boolean): string => `
  import { appendFileSync, readFileSync } from 'node:fs';
  export default {
    description: 'Notes.', parameters: { type: 'object' }, idempotent: ${idempotent},
    async execute() {
      appendFileSync(${JSON.stringify(file)}, 'ran\\n');
      const runs = readFileSync(${JSON.stringify(file)}, 'utf8').trim().split('\\n').length;
      if (${hangs} && runs === 1) await new Promise(() => {});
      return 'noted';
    },
  };`;

test('a worker that is drained in the middle of a tool hands its run over', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-upgrade-'));
  later(() => rm(folder, { recursive: true }));
  const ran = async (name: string) =>
    (await readFile(join(folder, `${name}.ran`), 'utf8').catch(() => '')).split('ran').length - 1;
  await writeFile(join(folder, 'finished.mjs'), tool(join(folder, 'finished.ran'), false, false));
  await writeFile(join(folder, 'slow.mjs'), tool(join(folder, 'slow.ran'), true, true));

  const redis = track(await startRedis());
  const model = track(await startModelServer());
  model.enqueue({ calls: [{ name: 'finished', arguments: {} }] });
  model.enqueue({ calls: [{ name: 'slow', arguments: {} }] });
  model.enqueue({ text: 'all done' });
  const config = withModel(model.openaiUrl, {
    server: { drain_seconds: 0.2 },
    tools: { enabled: [], folder },
    channels: { webhook: { type: 'webhook', api_keys: [API_KEY] } },
  });
  const options = { config, redisUrl: redis.url };
  const gateway = track(await startServer({ ...options, args: ['--role', 'gateway'] }));
  const old = track(await startServer({ ...options, args: ['--role', 'worker'] }));
  const client = createWebhookClient(() => gateway.url);
  const { id } = await client.send('do both', { id: 'm1' });
  await vi.waitFor(async () => expect(await ran('slow')).toBe(1), { timeout: 20_000 });

  const next = track(await startServer({ ...options, args: ['--role', 'worker'] }));
  const drainedAt = performance.now();
  expect(await old.kill('SIGTERM')).toBe(0);
  expect(await client.settled(id)).toMatchObject({ status: 'done', reply: { text: 'all done' } });
  // Handed over: nobody waits for the lease (30 s) to end.
  expect(performance.now() - drainedAt).toBeLessThan(15_000);
  await next.line(/"msg":"run committed"/);
  expect([await ran('finished'), await ran('slow')]).toEqual([1, 2]);
  // The calls of the model that were answered are not made again either.
  expect(model.requests).toHaveLength(3);
  const { messages } = await readConversation(gateway.url, 'webhook:c1', ADMIN_TOKEN);
  expect(messages.flatMap(({ content }) => content.map(({ type }) => type))).toEqual([
    'text',
    'tool_use',
    'tool_result',
    'tool_use',
    'tool_result',
    'text',
  ]);
});
