// The chat page's channel for the contract suite: what a browser posts, to a real HTTP server.
import { createHash } from 'node:crypto';
import { createWebChannel } from '../../../channels/web/index.ts';
import { configSchema } from '../../../config/schema.ts';
import { ACCOUNT, type ChannelParts, type ChannelRig } from '../suites/channel.ts';
import { serve } from './webhook.ts';

export async function webRig({ accept, media, storage, log }: ChannelParts): Promise<ChannelRig> {
  const channel = createWebChannel({ account: ACCOUNT });
  const config = configSchema.parse({ channels: { [ACCOUNT]: { type: 'web' } } });
  const { app, url } = await serve({ accept, media, storage, log }, config, channel);
  const direct = 'd'.repeat(32);
  const post = (chat: string, body: string) =>
    fetch(`${url}/web/${ACCOUNT}/conversations/${chat}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });

  return {
    channel,
    ids: { ada: 'web', bob: 'web', direct },
    connected: async () => {},
    async say({ id: name, chat, text }) {
      const id = createHash('sha256').update(name).digest('base64url');
      const response = await post(chat, JSON.stringify({ id, text }));
      const { reply } = (await response.json()) as { reply?: string };
      return { id, acknowledged: response.ok, ...(reply === undefined ? {} : { reply }) };
    },
    garbage: ['{', '[]', '{"id":7}', '\u0000'].map((body) => () => post(direct, body)),
    away: async () => {},
    connections: () => 0,
    close: () => app.close(),
  };
}
