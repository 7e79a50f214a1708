// One account's life on the platform: logged in or waiting for it, polling, and what comes in. One process at a time acts; the
// others show what it tells. Login and cursor are in the storage: the next process goes on with them.
import { z } from 'zod';
import { AppError } from '../../src/domain/errors.ts';
import type { ChannelState } from '../../src/ports/channel-state.ts';
import type { ChannelStatus } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import { whileHeld } from '../shared/lease.ts';
import { HOLD_MS, type Login, type WeixinApi } from './client/api.ts';
import { WeixinError } from './client/errors.ts';
import type { Take } from './inbound.ts';
import { CODE_KEY, createLogIn } from './login.ts';

export interface SessionOptions {
  api: Pick<WeixinApi, 'qrCode' | 'qrStatus' | 'updates'>;
  baseUrl: string;
  state: ChannelState;
  leaseMs: number;
  take: Take;
  /** Told of each change. */
  onStatus: (status: ChannelStatus) => void;
  clock: Clock;
  log: Logger;
}

export interface Session {
  /** Resolves when the signal has aborted. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** Undefined: nobody is logged in. Rejects when the storage fails. */
  login(): Promise<Login | undefined>;
  /** The platform says that this login is over: it is forgotten, and a new one asked for. */
  refused(login: Login): Promise<void>;
  /** The code that the phone shows. Rejects with AppError 'conflict' if none is asked for. */
  enterCode(code: string): Promise<void>;
  /** The bot's id, once it is known. */
  botId(): string | undefined;
}

const loginSchema = z.object({
  token: z.string(),
  baseUrl: z.string(),
  botId: z.string(),
  userId: z.string(),
});
const statusSchema = z.object({
  state: z.enum(['starting', 'connected', 'waiting_for_login', 'disconnected', 'failed', 'stopped']),
  detail: z.string().optional(),
  qr: z.string().optional(),
  asks: z.literal('code').optional(),
});

const RETRY_MS = { first: 2_000, later: 30_000 };
/** Failures in a row after which the wait is the longer one. */
const QUICK_TRIES = 3;
/** A poll that is held for so long after a failure means that all is well again. */
const HELD_MS = 3_000;
const THROTTLED_MS = { first: 10_000, most: 120_000 };

export function createSession(options: SessionOptions): Session {
  const { api, baseUrl, state, leaseMs, take, onStatus, clock, log } = options;
  let shown: ChannelStatus = { state: 'starting' };
  let botId: string | undefined;
  /** Ends the poll under way. */
  let poll = new AbortController();

  async function tell(status: ChannelStatus): Promise<void> {
    show(status);
    // For the other processes, and for their consoles.
    await state.set('status', status);
  }

  function show(status: ChannelStatus): void {
    shown = status;
    onStatus(status);
  }

  async function login(): Promise<Login | undefined> {
    const { data } = loginSchema.safeParse(await state.get('login'));
    botId = data?.botId;
    return data;
  }

  const logIn = createLogIn({ api, baseUrl, state, tell, clock, log });

  async function newLogin(why: string | undefined, signal: AbortSignal): Promise<void> {
    const fresh = await logIn(why, signal);
    if (!fresh) return;
    // Another bot's cursor leads nowhere; the same one's brings what was said meanwhile.
    if ((await state.get('bot')) !== fresh.botId) await state.delete('cursor');
    await state.set('bot', fresh.botId);
    await state.set('login', fresh);
    log.info({ bot: fresh.botId }, 'logged in');
  }

  async function refused(dead: Login): Promise<void> {
    if ((await login())?.token !== dead.token) return;
    await state.delete('login');
    log.warn({ bot: dead.botId }, 'WeChat ended the login; a person has to scan a QR code');
    poll.abort();
  }

  /** A poll after a failure: the platform may hold it for long before anything comes. */
  async function heldAgain<T>(polled: () => Promise<T>): Promise<T> {
    const over = new AbortController();
    const telling = clock
      .sleep(HELD_MS, over.signal)
      .then(() => tell({ state: 'connected' }))
      .catch((error: unknown) => {
        if (!over.signal.aborted) log.debug({ error }, 'the account’s status could not be told');
      });
    try {
      return await polled();
    } finally {
      over.abort();
      await telling;
    }
  }

  /** Resolves when the login is over, or the signal has aborted. */
  async function pollOn(who: Login, signal: AbortSignal): Promise<void> {
    const saved = await state.get('cursor');
    let cursor = typeof saved === 'string' ? saved : '';
    let holdMs = HOLD_MS;
    await tell({ state: 'connected' });
    const polled = () => api.updates(who, cursor, holdMs, signal);
    for (let failures = 0; !signal.aborted;) {
      try {
        const updates = await (failures > 0 ? heldAgain(polled) : polled());
        await take(updates.messages, who, signal);
        // Only now: until they are durable, the platform has to give them again.
        if (updates.cursor !== cursor) await state.set('cursor', updates.cursor);
        ({ cursor, holdMs } = updates);
        if (failures > 0) await tell({ state: 'connected' });
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        const kind = error instanceof WeixinError ? error.kind : undefined;
        if (kind === 'dead') return refused(who);
        failures += 1;
        const waitMs = kind === 'throttled' ? throttledMs(failures) : retryMs(failures);
        log.warn({ error, failures, waitMs }, 'messages could not be taken in; trying again');
        const detail = `${error instanceof Error ? error.message : 'unknown'}; trying again`;
        await tell({ state: 'disconnected', detail }).catch(() => undefined);
        await clock.sleep(waitMs, signal).catch(() => undefined);
      }
    }
  }

  async function work(signal: AbortSignal): Promise<void> {
    let why: string | undefined;
    while (!signal.aborted) {
      const known = await login();
      if (!known) {
        await newLogin(why, signal);
        continue;
      }
      poll = new AbortController();
      await pollOn(known, AbortSignal.any([signal, poll.signal]));
      why = 'WeChat ended the login';
    }
  }

  return {
    run: (signal) =>
      whileHeld({
        state,
        leaseMs,
        clock,
        log,
        signal,
        work,
        async waiting() {
          await login();
          const { data } = statusSchema.safeParse(await state.get('status'));
          if (data) show(data);
        },
      }),
    login,
    refused,
    async enterCode(code) {
      if (shown.asks !== 'code') throw new AppError('conflict', 'No code is asked for now.');
      await state.set(CODE_KEY, code);
    },
    botId: () => botId,
  };
}

const retryMs = (failures: number): number => (failures < QUICK_TRIES ? RETRY_MS.first : RETRY_MS.later);

const throttledMs = (failures: number): number =>
  Math.min(THROTTLED_MS.first * 2 ** (failures - 1), THROTTLED_MS.most);
