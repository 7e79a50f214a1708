// The webhook for the contract suite: its routes on a real HTTP server, and a program that is called back.
import { createApp } from '../../../src/http/app.ts';
import { createWebhookChannel } from '../../../channels/webhook/index.ts';
import { configSchema, type WebhookSettings } from '../../../config/schema.ts';
import { systemClock } from '../../../src/system-clock.ts';
import { startCallbackReceiver } from '../../fakes/callback-receiver.ts';
import { createWebhookClient } from '../../fakes/webhook-client.ts';
import { ACCOUNT, type ChannelParts, type ChannelRig } from '../suites/channel.ts';

const KEY = 'the-api-key';

export async function webhookRig({ accept, media, storage, log }: ChannelParts): Promise<ChannelRig> {
  const receiver = await startCallbackReceiver();
  const settings = { type: 'webhook', api_keys: [KEY], allow_private_callbacks: true };
  const config = configSchema.parse({ channels: { [ACCOUNT]: settings } });
  const channel = createWebhookChannel({
    account: ACCOUNT,
    settings: config.channels[ACCOUNT] as WebhookSettings,
    clock: systemClock,
    log,
  });
  const { app, url } = await serve({ accept, media, storage, log }, config, channel);
  const client = createWebhookClient(() => url, ACCOUNT, KEY);
  const post = (body: string) =>
    fetch(`${url}/webhook/${ACCOUNT}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body,
    });

  return {
    channel,
    ids: { ada: 'ada:1 ü', bob: 'bob', direct: 'direct:chat/1?x=ü', group: 'room#7' },
    connected: async () => {},
    async say({ id, chat, sender, text, group = false, mentioned = true }) {
      const body = { sender: { id: sender }, group, mentioned, callback_url: receiver.url };
      const response = await client.post(text, { conversation: chat, id, body });
      // Not read, a connection would stay in use.
      const { reply } = (await response.json()) as { reply?: { text: string } };
      return { id, acknowledged: response.ok, ...(reply ? { reply: reply.text } : {}) };
    },
    garbage: ['{', '[]', '{"conversation":[],"text":7}', '\u0000'].map((body) => () => post(body)),
    sent: () =>
      receiver.received.map(({ headers, body }) => {
        const { conversation, reply } = body as { conversation: string; reply: { text: string } };
        return {
          chat: conversation.slice(ACCOUNT.length + 1),
          text: reply.text,
          key: String(headers['webhook-id']),
        };
      }),
    away: () => receiver.close(),
    connections: () => 0,
    async close() {
      await receiver.close();
      await app.close();
    },
  };
}

/** The routes through which messages of an account come in. */
export async function serve(
  { accept, media, storage, log }: Pick<ChannelParts, 'accept' | 'media' | 'storage' | 'log'>,
  config: ReturnType<typeof configSchema.parse>,
  channel: ChannelRig['channel'],
) {
  const app = await createApp({
    config,
    storage,
    accept,
    media,
    channels: new Map([[ACCOUNT, channel]]),
    models: [],
    metrics: { contentType: 'text/plain', render: async () => '' },
    log,
    adminToken: 'the-admin-token',
    state: { draining: () => false, ready: async () => [] },
  });
  return { app, url: await app.listen({ host: '127.0.0.1', port: 0 }) };
}
