// The main job with a model server that nobody here wrote: parallel tool calls over both vendors' APIs, on both backends,
// with a signed webhook request.
import { LLMock } from '@copilotkit/aimock';
import { Webhook } from 'standardwebhooks';
import { expect, test } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer } from '../fakes/server.ts';
import { readConversation } from '../fakes/webhook-client.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const { later } = useCleanups();

async function startMock(): Promise<LLMock> {
  const mock = new LLMock({ port: 0, chunkSize: 5 });
  mock.on(
    { userMessage: /both/, hasToolResult: false },
    {
      toolCalls: [
        { id: 'call_shanghai', name: 'now', arguments: '{"zone":"Asia/Shanghai"}' },
        { id: 'call_berlin', name: 'now', arguments: '{"zone":"Europe/Berlin"}' },
      ],
    },
  );
  mock.on(
    { userMessage: /both/, hasToolResult: true },
    { content: 'It is later in Shanghai than in Berlin.' },
  );
  await mock.start();
  later(() => mock.stop());
  return mock;
}

test.each([
  { provider: 'openai', backend: 'sqlite' },
  { provider: 'anthropic', backend: 'sqlite' },
  { provider: 'openai', backend: 'redis' },
  { provider: 'anthropic', backend: 'redis' },
])('two parallel calls through the $provider API on $backend', async ({ provider, backend }) => {
  const mock = await startMock();
  const redis = backend === 'redis' ? await startRedis() : undefined;
  if (redis) later(() => redis.close());
  const server = await startServer({
    config: {
      model: 'mock',
      models: {
        mock: {
          provider,
          model: provider === 'openai' ? 'gpt-5' : 'claude-sonnet-4-5',
          base_url: provider === 'openai' ? `${mock.url}/v1` : mock.url,
          api_key: 'sk-mock',
        },
      },
      channels: { webhook: { type: 'webhook', secret: SECRET } },
    },
    ...(redis ? { redisUrl: redis.url } : {}),
  });
  later(() => server.close());

  const body = JSON.stringify({ conversation: 'zones', text: 'the time in both cities, please' });
  const at = new Date();
  const response = await fetch(`${server.url}/webhook/webhook`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      prefer: 'wait=20',
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(SECRET).sign('msg_1', at, body),
    },
    body,
  });
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({
    id: 'msg_1',
    conversation: 'webhook:zones',
    status: 'done',
    reply: { text: 'It is later in Shanghai than in Berlin.' },
  });

  const { messages } = await readConversation(server.url, 'webhook:zones', ADMIN_TOKEN);
  expect(messages.map((message) => message.role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  const uses = messages[1]!.content.filter((block) => block.type === 'tool_use');
  const results = messages[2]!.content as { type: string; tool_use_id: string; content: string }[];
  expect(uses).toHaveLength(2);
  expect(results.map((result) => result.tool_use_id)).toEqual(uses.map((use) => use.id));
  expect(results[0]!.content).toContain('Asia/Shanghai');
  expect(results[1]!.content).toContain('Europe/Berlin');
});
