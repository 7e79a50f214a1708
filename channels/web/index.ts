// The web channel: the chat page. page/ is what the browser loads, parse.ts turns what it posts into a message; the routes
// are in src/http/web.ts. Answers are read from the conversation's events and history, so nothing is ever delivered.
import type { Channel, ChannelStatus } from '../../src/ports/channel.ts';

export interface WebChannelOptions {
  account: string;
}

export function createWebChannel({ account }: WebChannelOptions): Channel {
  let state: ChannelStatus['state'] = 'stopped';

  return {
    account,
    type: 'web',
    async start() {
      state = 'connected';
    },
    async stop() {
      state = 'stopped';
    },
    status: () => ({ state }),
    // Messages of this channel name no reply target, so no commit queues a delivery for it.
    deliver: async () => ({ status: 'drop', error: 'the chat page reads its answers itself' }),
  };
}
