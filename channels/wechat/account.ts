// The account as the child tells of it: logged in or not, and since when; and the children, one after the other, each started
// later than the one before while they keep ending.
import { join } from 'node:path';
import type { WechatSettings } from '../../config/schema.ts';
import type { ChannelStatus } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { FromChild, Handed, Outcome, Send, Start } from './ipc.ts';
import { startChild, type Child } from './process.ts';
import { createTroubles } from './trouble.ts';

export interface AccountOptions {
  account: string;
  settings: WechatSettings;
  maxFileBytes: number;
  /** Folder of the login's memory. */
  folder: string;
  /** True: the child may forget the message. */
  onMessage(message: Handed): Promise<boolean>;
  onRecall(message: string): Promise<void>;
  onStatus(status: ChannelStatus): void;
  clock: Clock;
  log: Logger;
}

/** `lost`: the process ended, and nobody knows whether it was sent. */
export type Ending = Outcome | { outcome: 'lost'; reason: string };

export interface Account {
  /** Keeps a child alive until the signal aborts; then resolves when none is left. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
  send(request: Omit<Send, 'type' | 'serial'>): Promise<Ending>;
  /** While nobody is logged in: why, and when to ask again. */
  away(): { reason: string; afterMs: number } | undefined;
  /** Logged in a moment ago. */
  isFresh(): boolean;
  /** Since the puppet's last sign of life; undefined if it gives none. */
  silentMs(): number | undefined;
  /** Of this account, in all logins of this process. */
  ids(): readonly string[];
}

const RESTART_MS = { first: 1_000, most: 60_000 };
/** Something has to be installed first. */
const MISSING_MS = 60_000;
/** Deliveries ask again after a quarter of the time that nobody was logged in. */
const ASK_MS = { least: 500, most: 30_000 };
/** Another process can send it at once. */
const ELSEWHERE_MS = 1_000;
const FRESH_MS = 60_000;
/** A puppet that shows no new code for so long after a logout is started anew. */
const NO_CODE_MS = 120_000;

export function createAccount(options: AccountOptions): Account {
  const { account, settings, clock, log, onStatus } = options;
  const own = new Set<string>();
  const waiting = new Map<number, (ending: Ending) => void>();
  let serial = 0;
  let child: Child | undefined;
  let login: { id: string; at: number } | undefined;
  let acting = false;
  let awaySince = clock.now();
  let beatAt: number | undefined;
  /** A login is under way. */
  let hasCode = false;
  let troubles = createTroubles(log, clock.now);
  let failure: Extract<FromChild, { type: 'fatal' }> | undefined;
  let restartMs = RESTART_MS.first;
  let noCode: NodeJS.Timeout | undefined;

  const start: Start = {
    type: 'start',
    puppet: settings.puppet,
    options: settings.puppet_options,
    ...(settings.memory === 'none'
      ? {}
      : { memory: settings.memory || join(options.folder, `wechat-${account}`) }),
    maxFileBytes: options.maxFileBytes,
    groupFiles: settings.group.trigger === 'always',
  };

  function onLogin({ id, name }: { id: string; name: string }): void {
    own.add(id);
    login = { id, at: clock.now() };
    restartMs = RESTART_MS.first;
    clearTimeout(noCode);
    onStatus({ state: 'connected', detail: `logged in as ${name || id}` });
    log.info({ name }, 'logged in');
  }

  function onLogout(reason: string): void {
    if (login) awaySince = clock.now();
    login = undefined;
    hasCode = true;
    onStatus({
      state: 'waiting_for_login',
      detail: `logged out (${reason || 'no reason given'}); a new code is on its way`,
    });
    log.warn({ reason }, 'logged out; answers wait for the next login');
    clearTimeout(noCode);
    noCode = setTimeout(() => child?.stop(), NO_CODE_MS);
  }

  function onScan({ state, qr }: Extract<FromChild, { type: 'scan' }>): void {
    clearTimeout(noCode);
    if (login) return;
    hasCode = true;
    if (state === 'waiting') {
      onStatus({ state: 'waiting_for_login', detail: SCAN.waiting, ...(qr === undefined ? {} : { qr }) });
      log.info({}, 'a code waits to be scanned; the console shows it');
    } else onStatus({ state: 'waiting_for_login', detail: SCAN[state] });
  }

  function onTrouble(from: Child, reason: string): void {
    if (troubles.note(reason)) {
      failure = { type: 'fatal', cause: 'broken', reason: `in trouble again and again: ${reason}` };
      from.stop();
    } else if (!login && !hasCode)
      onStatus({ state: 'starting', detail: `trouble in the puppet: ${reason}` });
  }

  function on(from: Child, message: FromChild): void {
    // Read from the channel after its process had ended: people's messages count all the same.
    if (from !== child && message.type !== 'message' && message.type !== 'recalled') return;
    switch (message.type) {
      case 'scan':
        return onScan(message);
      case 'login':
        return onLogin(message);
      case 'logout':
        return onLogout(message.reason);
      case 'message':
        void options.onMessage(message.message).then((taken) => {
          if (taken) from.tell({ type: 'taken', serial: message.serial });
        });
        return;
      case 'recalled':
        void options.onRecall(message.id);
        return;
      case 'outcome':
        waiting.get(message.serial)?.(message);
        return;
      case 'trouble':
        return onTrouble(from, message.reason);
      case 'fatal':
        failure = message;
        return;
      case 'heartbeat':
        beatAt = clock.now();
        return;
      default:
    }
  }

  /** Says why, and how long to wait. */
  function onEnd(how: string, wanted: boolean): number {
    if (login) awaySince = clock.now();
    login = undefined;
    beatAt = undefined;
    clearTimeout(noCode);
    for (const lose of waiting.values())
      lose({ outcome: 'lost', reason: 'the WeChat process ended meanwhile' });
    if (wanted) return 0;
    if (failure && failure.cause !== 'broken') {
      onStatus({ state: 'failed', detail: missing(failure.cause, settings.puppet) });
      log.error({ puppet: settings.puppet }, missing(failure.cause, settings.puppet));
      return MISSING_MS;
    }
    const detail = failure ? failure.reason : how;
    const waitMs = restartMs;
    restartMs = Math.min(restartMs * 2, RESTART_MS.most);
    onStatus({ state: 'disconnected', detail: `the WeChat process ended (${detail}); it is started again` });
    log.warn({ how, reason: failure?.reason, waitMs }, 'the WeChat process ended; it is started again');
    return waitMs;
  }

  return {
    async run(signal) {
      acting = true;
      awaySince = clock.now();
      while (!signal.aborted) {
        onStatus({ state: 'starting' });
        failure = undefined;
        hasCode = false;
        troubles = createTroubles(log, clock.now);
        const started = startChild({
          start,
          env: settings.env,
          log,
          signal,
          on: (message) => on(started, message),
        });
        child = started;
        const how = await started.ended;
        child = undefined;
        const waitMs = onEnd(how, signal.aborted);
        await clock.sleep(waitMs, signal).catch(() => undefined);
      }
      acting = false;
    },
    async send(request) {
      const number = ++serial;
      const { promise, resolve } = Promise.withResolvers<Ending>();
      waiting.set(number, resolve);
      try {
        const told = child?.tell({ type: 'send', serial: number, ...request });
        if (!told) return { outcome: 'logged_out', reason: 'the WeChat process is not running' };
        return await promise;
      } finally {
        waiting.delete(number);
      }
    },
    away() {
      if (login) return undefined;
      if (!acting) return { reason: 'another process of this server has the login', afterMs: ELSEWHERE_MS };
      const afterMs = Math.min(Math.max((clock.now() - awaySince) / 4, ASK_MS.least), ASK_MS.most);
      return { reason: 'nobody is logged in to WeChat', afterMs: Math.ceil(afterMs) };
    },
    isFresh: () => login !== undefined && clock.now() - login.at < FRESH_MS,
    silentMs: () => (beatAt === undefined ? undefined : clock.now() - beatAt),
    ids: () => [...own],
  };
}

const SCAN = {
  waiting: 'scan the code with WeChat',
  scanned: 'the code was scanned; confirm on the phone',
  confirmed: 'confirmed on the phone; logging in',
  cancelled: 'cancelled on the phone; a new code is on its way',
};

/** Tried together with what package.json leaves out of it; a test holds the two to one version. */
export const WECHATY = 'wechaty@1.20.2';

export function missing(cause: 'wechaty' | 'puppet', puppet: string): string {
  const install = /^[./]/.test(puppet) ? WECHATY : `${WECHATY} ${puppet}`;
  const what = cause === 'puppet' ? `the puppet ${puppet}` : 'wechaty';
  return `${what} is not installed: npm install --save-prod ${install}`;
}
