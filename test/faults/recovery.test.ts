// How long a conversation waits: for another worker after a crash, and for the sweep in normal operation (never). The
// sweep is as good as switched off here: it looks once, at the start.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer, type ModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { startServer, withModel } from '../fakes/server.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';

const LOCK_SECONDS = 2;
const WITHIN_MS = (LOCK_SECONDS + 5) * 1_000;
const NO_SWEEP_SECONDS = 86_400;

const { later } = useCleanups();
const closing = <T extends { close(): Promise<unknown> }>(resource: T): T => {
  later(() => resource.close());
  return resource;
};

const configOf = (model: ModelServer) =>
  withModel(model.openaiUrl, {
    workers: { lock_seconds: LOCK_SECONDS, sweep_seconds: NO_SWEEP_SECONDS },
    channels: {
      webhook: {
        type: 'webhook',
        api_keys: [API_KEY],
        allow_private_callbacks: true,
        limits: { per_minute: 100_000 },
      },
    },
  });

async function setUp(backend: 'sqlite' | 'redis') {
  const model = closing(await startModelServer());
  const config = configOf(model);
  if (backend === 'sqlite') {
    const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-recovery-'));
    later(() => rm(dataDir, { recursive: true, force: true }));
    const launch = async () => closing(await startServer({ config, dataDir }));
    const first = await launch();
    return { model, gateway: first, worker: first, takeOver: launch };
  }
  const redisUrl = closing(await startRedis()).url;
  const launch = async (role: string) =>
    closing(await startServer({ config, redisUrl, args: ['--role', role] }));
  const gateway = await launch('gateway');
  return { model, gateway, worker: await launch('worker'), takeOver: () => launch('worker') };
}

describe.each(['sqlite', 'redis'] as const)('on %s', (backend) => {
  test('a run whose worker is killed is taken up within lock_seconds + 5 s', async () => {
    const { model, gateway, worker, takeOver } = await setUp(backend);
    model.enqueue({ text: ['half ', 'an answer'], stallAfter: 2 });
    const client = createWebhookClient(() => gateway.url);
    await client.send('hello', { id: 'm1' });
    await model.request(0);
    // Embedded there is one process: the time counts from its next start.
    if (backend === 'redis') {
      const other = await takeOver();
      await worker.kill('SIGKILL');
      const killedAt = performance.now();
      await model.request(1);
      expect(performance.now() - killedAt).toBeLessThan(WITHIN_MS);
      await vi.waitFor(async () => expect((await client.status('m1')).status).toBe('done'), {
        timeout: 5_000,
      });
      await other.line(/"msg":"run committed"/);
    } else {
      await worker.kill('SIGKILL');
      const next = await takeOver();
      const startedAt = performance.now();
      await model.request(1);
      expect(performance.now() - startedAt).toBeLessThan(WITHIN_MS);
      await vi.waitFor(
        async () => expect((await createWebhookClient(() => next.url).status('m1')).status).toBe('done'),
        { timeout: 5_000 },
      );
    }
  });

  test('in normal operation no message waits for the sweep', async () => {
    const { model, gateway } = await setUp(backend);
    model.setScript(({ n }) => ({ text: 'yes', delayMs: (n * 7) % 40 }));
    const receiver = closing(await startCallbackReceiver());
    const client = createWebhookClient(() => gateway.url);
    // The look at the start is over when something was answered.
    await client.send('hello', { id: 'first' });
    await client.settled('first');
    // Steering, runs of their own, duplicates and bursts: every way in which a wake meets a run that is about to end.
    const ids = await Promise.all(
      Array.from({ length: 25 }, async (_, c) => {
        const own = Array.from({ length: 8 }, (_one, n) => `c${c}-m${n}`);
        for (const id of own) {
          const body = {
            callback_url: receiver.url,
            ...(c % 2 === 0 ? {} : { group: true, mentioned: true }),
          };
          await client.send(id, { id, conversation: `c${c}`, body });
          if (c % 5 === 0) await client.send(id, { id, conversation: `c${c}`, body });
        }
        return own;
      }),
    );
    await vi.waitFor(
      () => {
        const told = new Set(receiver.received.flatMap(({ body }) => body['messages'] as string[]));
        expect(ids.flat().filter((id) => !told.has(id))).toEqual([]);
      },
      { timeout: 30_000, interval: 50 },
    );
  });
});
