// One busy conversation does not hold up the others: with a single worker slot and hundreds of its messages waiting, people who
// write directly are answered after one run of it, whatever its busy mode.
import { expect, test } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { startServer, withModel } from '../fakes/server.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';

const { track } = useCleanups();
const WAITING = 80;
const DIRECT = 5;

test.each(['sqlite', 'redis'] as const)('on %s', async (backend) => {
  const redis = backend === 'redis' ? track(await startRedis()) : undefined;
  const model = track(await startModelServer());
  const config = withModel(model.openaiUrl, {
    workers: { concurrency: 1 },
    agent: { on_busy: { direct: 'steer', group: 'followup' } },
    channels: { webhook: { type: 'webhook', api_keys: [API_KEY], limits: { per_minute: 100_000 } } },
  });
  const server = track(await startServer({ config, ...(redis ? { redisUrl: redis.url } : {}) }));
  const client = createWebhookClient(() => server.url);

  for (const mode of ['steer', 'followup']) {
    const busy = { conversation: mode, body: { group: mode === 'followup', mentioned: true } };
    const names = Array.from({ length: DIRECT }, (_, n) => `direct-${mode}-${n}`);
    let go = (): void => undefined;
    model.enqueue({ text: 'the first', hold: new Promise<void>((resolve) => (go = resolve)) });
    const first = model.requests.length;
    await client.send('busy', busy);
    await model.request(first);
    const flood = Array.from({ length: WAITING }, (_, n) => `${mode}-${n}`);
    await Promise.all(flood.map((id) => client.send('busy', { ...busy, id })));
    for (const id of names) await client.send(id, { conversation: id, id });
    const releasedAt = performance.now();
    go();
    for (const id of names) await client.settled(id);
    const ms = Math.round(performance.now() - releasedAt);

    const calls = model.requests.slice(first).map(({ body }) => JSON.stringify(body));
    const last = calls.findLastIndex((call) => names.some((name) => call.includes(name)));
    const before = calls.slice(0, last).filter((call) => !call.includes('direct-')).length;
    process.stdout.write(
      `${backend}, ${mode}: ${WAITING} messages wait in one conversation; ${DIRECT} direct chats answered in ${ms} ms, after ${before} model calls for it\n`,
    );
    // The one that was being answered, and what it takes in at its end.
    expect(before).toBeLessThanOrEqual(2);
    // So that the next mode has the worker to itself.
    if (mode === 'steer') for (const id of flood) await client.settled(id);
  }
});
