// The Feishu channel: one app (bot). client/ talks to the platform; inbound.ts takes its events in, from the long connection
// or from webhook.ts; outbound.ts sends; live.ts shows runs while they work.
import type { FeishuSettings } from '../../config/schema.ts';
import { AppError } from '../../src/domain/errors.ts';
import type { Accept, Channel, ChannelMemory, ChannelStatus } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import { checkApp } from './check.ts';
import { createApi } from './client/api.ts';
import { createConnection, type Connection } from './client/connection.ts';
import { createInbound } from './inbound.ts';
import { createLive } from './live.ts';
import { createMedia } from './media.ts';
import { createNames } from './names.ts';
import { createOutbound, targetOf } from './outbound.ts';
import { createReceiver } from './webhook.ts';

export interface FeishuChannelOptions {
  account: string;
  settings: FeishuSettings;
  accept: Accept;
  cancel: (conversation: string, message: string) => Promise<boolean>;
  memory: ChannelMemory;
  /** Files of messages, both ways. */
  media: MediaStore;
  clock: Clock;
  log: Logger;
}

/** An event that comes before the bot knows itself is sent again by the platform. */
const IDENTITY_PATIENCE_MS = 2_000;
const RETRY_MS = { first: 1_000, most: 60_000 };

/** Throws AppError config_invalid. */
export function createFeishuChannel(options: FeishuChannelOptions): Channel {
  const { account, settings, memory, clock, cancel } = options;
  if (settings.app_secret === '')
    throw new AppError('config_invalid', `channels.${account}: app_secret is missing`);
  if (settings.mode === 'webhook' && settings.encrypt_key === '' && settings.verification_token === '') {
    const detail = `channels.${account}: mode webhook needs encrypt_key or verification_token (developer console, Events and Callbacks)`;
    throw new AppError('config_invalid', detail);
  }
  const log = options.log.child({ account });
  const now = () => clock.now();
  const stopped = new AbortController();
  let state: ChannelStatus = { state: 'stopped' };
  let connection: Connection | undefined;
  let started: Promise<void> | undefined;
  let openId: string | undefined;
  const identity = Promise.withResolvers<string>();

  const api = createApi({ settings, log, signal: stopped.signal, now });
  const names = createNames(api, log, now);
  const live = createLive({ api, memory, settings, targetOf, cancel, log, now });
  const outbound = createOutbound({ api, live, media: options.media, log });
  const handlers = createInbound({
    account,
    settings,
    accept: options.accept,
    cancel,
    memory,
    api,
    names,
    media: createMedia({ api, store: options.media, log }),
    say: outbound.say,
    botOpenId,
    log,
    now,
  });

  async function botOpenId(): Promise<string> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => reject(new AppError('storage_unavailable', 'The bot does not know its own id yet.')),
      IDENTITY_PATIENCE_MS,
    );
    try {
      return await Promise.race([identity.promise, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async function connect(): Promise<void> {
    const { signal } = stopped;
    for (let waitMs = RETRY_MS.first; !signal.aborted; waitMs = Math.min(waitMs * 2, RETRY_MS.most)) {
      try {
        const bot = await api.bot();
        openId = bot.openId;
        identity.resolve(bot.openId);
        log.info({ bot: bot.name, mode: settings.mode }, 'the bot is known to the platform');
        break;
      } catch (error) {
        if (signal.aborted) return;
        const detail = error instanceof Error ? error.message : 'unknown';
        state = { state: 'failed', detail: `${detail}; check app_id, app_secret and domain` };
        log.warn({ error, waitMs }, 'the platform does not answer as it should; trying again');
        await clock.sleep(waitMs, signal).catch(() => undefined);
      }
    }
    if (signal.aborted) return;
    if (settings.mode === 'webhook') {
      state = { state: 'connected', detail: `events are taken at POST /channels/${account}/events` };
      return;
    }
    connection = createConnection({
      settings,
      handlers,
      log,
      now,
      onState(next, detail) {
        if (signal.aborted) return;
        state = { state: next, ...(detail === undefined ? {} : { detail }) };
        if (next === 'connected') log.info({}, 'long connection is up');
        else log.warn({ detail }, 'long connection is down; trying again');
      },
    });
    await connection.start();
  }

  return {
    account,
    type: 'feishu',
    async start() {
      if (started || stopped.signal.aborted) return;
      state = { state: 'starting' };
      started = connect().catch((error: unknown) => {
        state = { state: 'failed', detail: 'could not be started; see the log' };
        log.error({ error }, 'channel did not start');
      });
    },
    async stop() {
      stopped.abort();
      connection?.close();
      await started;
      connection?.close();
      state = { state: 'stopped' };
    },
    status: () => state,
    check: () => checkApp(api, settings),
    deliver: outbound.deliver,
    botIds: () => (openId === undefined ? [settings.app_id] : [settings.app_id, openId]),
    live: live.view,
    ...(settings.mode === 'webhook' ? { receive: createReceiver({ settings, handlers, log, now }) } : {}),
  };
}
