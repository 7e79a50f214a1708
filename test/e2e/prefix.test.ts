// Prompt caches live on the bytes: each request of a conversation begins with the one before, also when another process
// makes it, with both vendors' APIs. Recorded as they arrived at the model.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { startServer } from '../fakes/server.ts';
import { API_KEY, createWebhookClient } from '../fakes/webhook-client.ts';

const { later, track } = useCleanups();

test.each(['sqlite: restarted', 'redis: one worker after the other'])(
  'on %s: an earlier request is a byte prefix of the later one',
  async (backend) => {
    const model = track(await startModelServer());
    const config = {
      model: 'openai',
      models: {
        openai: { provider: 'openai', model: 'fake-1', base_url: model.openaiUrl, api_key: 'k' },
        anthropic: { provider: 'anthropic', model: 'fake-2', base_url: model.url, api_key: 'k' },
      },
      channels: { webhook: { type: 'webhook', api_keys: [API_KEY] } },
    };
    const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-prefix-'));
    later(() => rm(dataDir, { recursive: true }));
    const storage = backend.startsWith('redis') ? { redisUrl: track(await startRedis()).url } : { dataDir };
    const wait = { prefer: 'wait=30' };
    for (const [n, words] of [
      ['use:now', 'thanks'],
      ['use:calculate{"expression":"6*7"}', '谢谢'],
    ].entries()) {
      const server = track(await startServer({ config, ...storage }));
      const client = createWebhookClient(() => server.url);
      if (n === 0) await client.send('/model anthropic', { conversation: 'anthropic' });
      for (const conversation of ['openai', 'anthropic'])
        for (const text of words)
          expect(await client.send(text, { conversation, headers: wait })).toMatchObject({ status: 'done' });
      expect(await server.kill('SIGTERM')).toBe(0);
    }
    for (const vendor of ['openai', 'anthropic']) {
      const bodies = model.requests
        .filter((request) => request.vendor === vendor)
        // Breakpoints move along with the newest messages; to the vendor they are no part of the content.
        .map(({ raw }) => raw.replaceAll(',"cache_control":{"type":"ephemeral"}', ''));
      // Two of a message that needs a tool, one of the other; in each process.
      expect(bodies).toHaveLength(6);
      for (const [n, body] of bodies.entries()) {
        expect(body.slice(-2)).toBe(']}');
        const next = bodies[n + 1];
        if (next !== undefined) expect(next.slice(0, body.length - 2)).toBe(body.slice(0, -2));
      }
    }
  },
);
