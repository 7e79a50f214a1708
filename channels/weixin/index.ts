// The weixin channel: a WeChat account's bot through iLink, Tencent's own bot API; direct chats. client/ speaks the protocol;
// session.ts logs in and polls; inbound.ts takes messages in; outbound.ts sends; typing.ts shows that a run is at work.
import type { WeixinSettings } from '../../config/schema.ts';
import type { ChannelState } from '../../src/ports/channel-state.ts';
import type { Accept, Channel, ChannelMemory, ChannelStatus } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import { createQrPrinter } from '../shared/qr.ts';
import { checkAccount } from './check.ts';
import { createApi } from './client/api.ts';
import { createInbound } from './inbound.ts';
import { createMedia } from './media.ts';
import { createOutbound } from './outbound.ts';
import { createPeople } from './people.ts';
import { createSession } from './session.ts';
import { createTyping } from './typing.ts';

export interface WeixinChannelOptions {
  account: string;
  settings: WeixinSettings;
  accept: Accept;
  memory: ChannelMemory;
  state: ChannelState;
  media: MediaStore;
  leaseMs: number;
  print: (text: string) => void;
  clock: Clock;
  log: Logger;
  /** More than the platform holds a poll. */
  marginMs?: number;
}

const TENCENT = { api: 'https://ilinkai.weixin.qq.com', cdn: 'https://novac2c.cdn.weixin.qq.com/c2c' };

/** Waits before an answer outside of a run is sent, until it is. */
const SAY_AGAIN_MS = [0, 2_000, 10_000, 60_000];

export function createWeixinChannel(options: WeixinChannelOptions): Channel {
  const { account, settings, memory, state, clock, marginMs } = options;
  const log = options.log.child({ account });
  const now = () => clock.now();
  const baseUrl = settings.base_url.replace(/\/+$/, '');
  const stopped = new AbortController();
  const { signal } = stopped;
  let status: ChannelStatus = { state: 'stopped' };
  let running: Promise<void> | undefined;
  /** Answers outside of runs that are being sent. */
  const saying = new Set<Promise<void>>();

  const api = createApi({ baseUrl, cdnUrl: cdnOf(baseUrl, settings.cdn_url), ...(marginMs && { marginMs }) });
  const people = createPeople(state, now);
  const printer = createQrPrinter(account, options.print);
  const session = createSession({
    api,
    baseUrl,
    state,
    leaseMs: options.leaseMs,
    take: (...args) => take(...args),
    onStatus(next) {
      if (signal.aborted) return;
      if (next.state !== status.state) log.info({ state: next.state, detail: next.detail }, 'state changed');
      status = next;
      printer.show(next.qr);
    },
    clock,
    log,
  });
  const { login, refused } = session;
  const outbound = createOutbound({
    api,
    people,
    memory,
    media: options.media,
    login,
    refused,
    log,
    now,
  });
  const typing = createTyping({ api, people, login, clock, log, signal });
  const take = createInbound({
    account,
    settings,
    accept: options.accept,
    people,
    media: createMedia({ api, store: options.media, log }),
    say(user, text, id) {
      const said = sayAgain(user, text, id).finally(() => saying.delete(said));
      saying.add(said);
    },
    log,
    now,
  });

  /** Never rejects. */
  async function sayAgain(user: string, text: string, id: string): Promise<void> {
    for (const waitMs of SAY_AGAIN_MS) {
      try {
        await clock.sleep(waitMs, signal);
        await outbound.say(user, text, id, signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ error }, 'an answer outside of a run could not be sent');
      }
    }
  }

  return {
    account,
    type: 'weixin',
    async start() {
      if (running || signal.aborted) return;
      status = { state: 'starting' };
      running = session.run(signal);
    },
    async stop() {
      // Before the connections end: the last word on typing is sent.
      await typing.close();
      stopped.abort();
      await running;
      await Promise.all(saying);
      status = { state: 'stopped' };
    },
    deliver: outbound.deliver,
    status: () => status,
    ...(settings.typing ? { live: typing.view } : {}),
    check: () => checkAccount({ api, baseUrl, login }),
    enterCode: session.enterCode,
    botIds() {
      const id = session.botId();
      return id === undefined ? [] : [id];
    },
  };
}

/** Files of another server than Tencent's are expected below its own address. */
function cdnOf(baseUrl: string, cdnUrl: string): string {
  if (cdnUrl !== '') return cdnUrl.replace(/\/+$/, '');
  return baseUrl === TENCENT.api ? TENCENT.cdn : `${baseUrl}/c2c`;
}
