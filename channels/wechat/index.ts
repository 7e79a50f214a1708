// The WeChat channel through wechaty: one personal account. child.ts runs wechaty in a process of its own; account.ts keeps that
// process alive; inbound.ts takes its messages in; outbound.ts sends through it.
import type { WechatSettings } from '../../config/schema.ts';
import type { Accept, Channel, ChannelMemory, ChannelStatus } from '../../src/ports/channel.ts';
import type { ChannelState } from '../../src/ports/channel-state.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import { whileHeld } from '../shared/lease.ts';
import { createQrPrinter } from '../shared/qr.ts';
import { createAccount } from './account.ts';
import { checkAccount } from './check.ts';
import { createInbound } from './inbound.ts';
import { createOutbound } from './outbound.ts';

export interface WechatChannelOptions {
  account: string;
  settings: WechatSettings;
  accept: Accept;
  cancel: (conversation: string, message: string) => Promise<boolean>;
  memory: ChannelMemory;
  state: ChannelState;
  leaseMs: number;
  media: MediaStore;
  /** Where the login is kept, unless a setting says so. */
  dataDir: string;
  print: (text: string) => void;
  clock: Clock;
  log: Logger;
}

/** Puppets that tell of themselves do so every few seconds to minutes. */
const SILENT_MS = 5 * 60_000;

export function createWechatChannel(options: WechatChannelOptions): Channel {
  const { account, settings, memory, media, clock } = options;
  const log = options.log.child({ account });
  const stopped = new AbortController();
  const qr = createQrPrinter(account, options.print);
  let status: ChannelStatus = { state: 'stopped' };
  let running: Promise<void> | undefined;

  function onStatus(next: ChannelStatus): void {
    if (stopped.signal.aborted) return;
    status = next;
    qr.show(next.qr);
  }

  const wechat = createAccount({
    account,
    settings,
    maxFileBytes: media.maxBytes,
    folder: options.dataDir,
    onMessage: (message) => inbound.take(message),
    onRecall: (message) => inbound.recall(message),
    onStatus,
    clock,
    log,
  });
  const outbound = createOutbound({
    wechat,
    unknownOutcome: settings.unknown_outcome,
    memory,
    media,
    log,
  });
  const inbound = createInbound({
    account,
    settings,
    accept: options.accept,
    cancel: options.cancel,
    memory,
    media,
    say: outbound.say,
    clock,
    log,
    signal: stopped.signal,
  });

  /** Connected, with the puppet's last sign of life, if it gives any. */
  function now(): ChannelStatus {
    const silentMs = wechat.silentMs();
    if (status.state !== 'connected' || silentMs === undefined) return status;
    const ago = `${Math.round(silentMs / 1000)} s ago`;
    if (silentMs < SILENT_MS) return { ...status, detail: `${status.detail}; last sign of life ${ago}` };
    return { state: 'disconnected', detail: `no sign of life from the puppet; the last was ${ago}` };
  }

  return {
    account,
    type: 'wechat',
    async start() {
      if (stopped.signal.aborted || running) return;
      status = { state: 'starting' };
      running = whileHeld({
        state: options.state,
        leaseMs: options.leaseMs,
        clock,
        log,
        signal: stopped.signal,
        work: wechat.run,
        async waiting() {
          onStatus({ state: 'disconnected', detail: 'another process of this server has the login' });
        },
      });
    },
    async stop() {
      stopped.abort();
      await running;
      status = { state: 'stopped' };
    },
    status: now,
    check: async () => checkAccount(settings),
    deliver: outbound.deliver,
    botIds: wechat.ids,
  };
}
