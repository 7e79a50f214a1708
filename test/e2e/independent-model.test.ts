// The main job with a model server that nobody here wrote: parallel tool calls over both vendors' APIs, on both backends,
// with a signed webhook request.
import { LLMock } from '@copilotkit/aimock';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useCleanups } from '../fakes/cleanups.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, type ServerProcess } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

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
  return mock;
}

describe.each(['sqlite', 'redis'])('on %s', (backend) => {
  const { later, track } = useCleanups(afterAll);
  let mock: LLMock;
  let server: ServerProcess;
  beforeAll(async () => {
    mock = await startMock();
    later(() => mock.stop());
    const redis = backend === 'redis' ? track(await startRedis()) : undefined;
    const config = {
      model: 'openai',
      models: {
        openai: { provider: 'openai', model: 'gpt-5', base_url: `${mock.url}/v1`, api_key: 'sk-mock' },
        anthropic: {
          provider: 'anthropic',
          model: 'claude-sonnet-4-5',
          base_url: mock.url,
          api_key: 'sk-mock',
        },
      },
      channels: { webhook: { type: 'webhook', secret: SECRET, api_keys: [API_KEY] } },
    };
    server = track(await startServer({ config, ...(redis ? { redisUrl: redis.url } : {}) }));
  });

  test.each(['openai', 'anthropic'])('two parallel calls through the %s API', async (provider) => {
    const client = createWebhookClient(() => server.url);
    await client.send(`/model ${provider}`, { conversation: provider });
    mock.clearRequests();
    const body = JSON.stringify({ conversation: provider, text: 'the time in both cities, please' });
    const at = new Date();
    const response = await fetch(`${server.url}/webhook/webhook`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        prefer: 'wait=20',
        'webhook-id': `msg_${provider}`,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        'webhook-signature': new Webhook(SECRET).sign(`msg_${provider}`, at, body),
      },
      body,
    });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      id: `msg_${provider}`,
      conversation: `webhook:${provider}`,
      status: 'done',
      reply: { text: 'It is later in Shanghai than in Berlin.' },
    });

    const path = provider === 'openai' ? '/v1/chat/completions' : '/v1/messages';
    expect(mock.getRequests().map((request) => request.path)).toEqual([path, path]);
    const { messages } = await readConversation(server.url, `webhook:${provider}`, ADMIN_TOKEN);
    expect(messages.map((message) => message.role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    const uses = messages[1]!.content.filter((block) => block.type === 'tool_use');
    const results = messages[2]!.content as { type: string; tool_use_id: string; content: string }[];
    expect(uses).toHaveLength(2);
    expect(results.map((result) => result.tool_use_id)).toEqual(uses.map((use) => use.id));
    expect(results[0]!.content).toContain('Asia/Shanghai');
    expect(results[1]!.content).toContain('Europe/Berlin');
  });
});
