// One Feishu channel on the unmodified SDK, with a fake platform, for unit tests. Everything is ended after the test.
import { vi, expect } from 'vitest';
import { createFeishuChannel } from '../../channels/feishu/index.ts';
import { configSchema, type FeishuSettings } from '../../config/schema.ts';
import type { Delivery } from '../../src/domain/delivery.ts';
import type { Accepted, ChannelMemory, ChannelMessage } from '../../src/ports/channel.ts';
import { systemClock } from '../../src/system-clock.ts';
import type { Cleanups } from './cleanups.ts';
import { APP_ID, APP_SECRET, BOT_OPEN_ID, startFeishuServer, type FeishuServer } from './feishu-server.ts';
import { recordingLog } from './log.ts';
import { createTestMedia } from './media.ts';

function settingsFor(server: FeishuServer, more: Partial<FeishuSettings> = {}): FeishuSettings {
  const config = configSchema.parse({
    channels: {
      team: { type: 'feishu', app_id: APP_ID, app_secret: APP_SECRET, domain: server.url, ...more },
    },
  });
  return config.channels['team'] as FeishuSettings;
}

export function createMemory(): ChannelMemory {
  const facts = new Map<string, string>();
  return {
    async remember(key, value) {
      if (!facts.has(key)) facts.set(key, value);
    },
    find: async (key) => facts.get(key),
  };
}

export interface FeishuRigOptions {
  settings?: Partial<FeishuSettings>;
  memory?: ChannelMemory;
  maxBytes?: number;
  /** Default: one of its own. */
  server?: FeishuServer;
}

export async function startFeishu(later: Cleanups['later'], options: FeishuRigOptions = {}) {
  const { settings: more = {}, memory = createMemory(), maxBytes = 1_000 } = options;
  const server = options.server ?? (await startFeishuServer());
  if (!options.server) later(() => server.close());
  const media = await createTestMedia(later, { maxBytes });
  const accepted: ChannelMessage[] = [];
  const cancelled: string[] = [];
  const { log, lines } = recordingLog();
  let answer = async (message: ChannelMessage): Promise<Accepted> => ({
    status: 'queued',
    id: message.id,
    conversation: `team:${message.chat}`,
  });
  const make = () => {
    const channel = createFeishuChannel({
      account: 'team',
      settings: settingsFor(server, more),
      accept: async (_account, message) => {
        const result = await answer(message);
        accepted.push(message);
        return result;
      },
      cancel: async (conversation, message) => cancelled.push(`${conversation} ${message}`) > 0,
      memory,
      media,
      clock: systemClock,
      log,
    });
    later(() => channel.stop());
    return channel;
  };
  const channel = make();
  return {
    server,
    channel,
    make,
    accepted,
    cancelled,
    lines,
    media,
    answerWith: (next: typeof answer) => (answer = next),
    async connect() {
      await channel.start();
      await server.connected();
      await vi.waitFor(() => expect(channel.status().state).toBe('connected'));
    },
  };
}

export const bot = { openId: BOT_OPEN_ID, name: 'Lane' };
export const never = new AbortController().signal;

export function delivery(text: string, more: Partial<Delivery> = {}): Delivery {
  return {
    id: 'd3b07384-d113-4ec6-a1f8-000000000001.0',
    conversation: 'team:oc_chat',
    account: 'team',
    run: 'd3b07384-d113-4ec6-a1f8-000000000001',
    messages: ['om_1'],
    address: { chat: 'oc_chat', message: 'om_1', group: true, thread: false },
    status: 'done',
    reply: { text },
    at: 0,
    ...more,
  };
}
