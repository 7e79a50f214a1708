// The doctor on channels: each is made, asked what its platform says of the account, and never started.
import { createChannels, isOn, type ChannelDeps } from '../../channels/index.ts';
import type { Config } from '../../config/schema.ts';
import { openStorage } from '../backend.ts';
import type { Storage } from '../ports/storage.ts';
import { systemClock } from '../system-clock.ts';
import { notingLog, reasonOf, type Finding, type Running } from './finding.ts';

/** Channels are made to see whether they can be; they are never started. */
const detached: ChannelDeps = {
  clock: systemClock,
  log: notingLog([]),
  accept: () => Promise.reject(new Error('not started')),
  cancel: () => Promise.resolve(false),
  memory: () => ({ remember: () => Promise.resolve(), find: () => Promise.resolve(undefined) }),
  state: () => ({
    get: () => Promise.reject(new Error('not opened')),
    set: () => Promise.resolve(),
    delete: () => Promise.resolve(),
    lease: () => Promise.resolve(false),
    release: () => Promise.resolve(),
  }),
  leaseMs: 1,
  dataDir: '',
  print: () => undefined,
  publicUrl: '',
  media: {
    maxBytes: 0,
    put: () => Promise.reject(new Error('not started')),
    get: () => Promise.resolve(undefined),
  },
};

/** Where a channel looks up its login. Undefined: none has one, or the storage is the running server's alone. */
async function loginStorage(config: Config, running: Running | undefined): Promise<Storage | undefined> {
  const asked = Object.values(config.channels).some(
    (settings) => settings.type === 'weixin' && isOn(settings),
  );
  if (!asked || (config.storage.url === '' && running?.ready)) return undefined;
  try {
    return await openStorage(config, notingLog([]));
  } catch {
    // Told by checkStorage.
    return undefined;
  }
}

export async function* checkChannels(config: Config, running: Running | undefined): AsyncGenerator<Finding> {
  const storage = await loginStorage(config, running);
  const parts = storage ? { ...detached, state: storage.channelState } : detached;
  try {
    yield* checkEach(config, parts);
  } finally {
    await storage?.close();
  }
}

async function* checkEach(config: Config, parts: ChannelDeps): AsyncGenerator<Finding> {
  for (const [account, settings] of Object.entries(config.channels)) {
    const part = `channel ${account}`;
    if (settings.enabled && !isOn(settings)) continue;
    if (!settings.enabled) {
      yield { state: 'ok', part, text: 'disabled' };
      continue;
    }
    try {
      const channel = (await createChannels({ [account]: settings }, parts)).get(account);
      const told = await channel?.check?.();
      await channel?.stop();
      if (told) yield* told.map(({ state, text }) => ({ state, part, text }));
      else yield { state: 'ok', part, text: wayIn(config, account, settings) };
    } catch (error) {
      yield { state: 'wrong', part, text: reasonOf(error) };
    }
  }
}

function wayIn({ server }: Config, account: string, settings: Config['channels'][string]): string {
  if (settings.type === 'feishu') return `app ${settings.app_id}, mode ${settings.mode}`;
  if (settings.type === 'weixin') return settings.base_url;
  if (settings.type === 'wechat') return `puppet ${settings.puppet}`;
  const keys = settings.api_keys.length > 0;
  const url = server.public_url || `http://${server.host}:${server.port}`;
  if (settings.type === 'web') {
    const open = ['127.0.0.1', '::1', 'localhost'].includes(server.host) && !server.public_url;
    if (keys) return `${url}/ with an api key or the admin token`;
    return open
      ? `${url}/ from this machine`
      : `${url}/ with the admin token; set api_keys for everybody else`;
  }
  const ways = [
    settings.secret.length > 0 && 'signed requests',
    keys && 'api keys',
    'the admin token',
  ].filter(Boolean);
  return `POST ${url}/webhook/${account} with ${ways.join(', ')}`;
}
