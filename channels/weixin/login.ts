// Logging in: a QR code that a person scans with WeChat, followed through its states until it is confirmed, and replaced when
// it expires.
import type { ChannelState } from '../../src/ports/channel-state.ts';
import type { ChannelStatus } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { Login, WeixinApi } from './client/api.ts';
import { WeixinError } from './client/errors.ts';

export interface LoginOptions {
  api: Pick<WeixinApi, 'qrCode' | 'qrStatus'>;
  baseUrl: string;
  /** Where the code that the phone shows arrives, from whichever process was told it. */
  state: Pick<ChannelState, 'get' | 'delete'>;
  tell: (status: ChannelStatus) => Promise<void>;
  clock: Clock;
  log: Logger;
}

/** Undefined only when the signal has aborted. `why`: what made it necessary. */
export type LogIn = (why: string | undefined, signal: AbortSignal) => Promise<Login | undefined>;

/** Key of the code in the account's state. */
export const CODE_KEY = 'code';

const SCAN = 'scan the QR code with WeChat (terminal or /console)';
const BETWEEN_MS = 1_000;
const RETRY_MS = { first: 2_000, later: 30_000 };
/** Tries after which the wait is the longer one. */
const QUICK_TRIES = 3;
/** As long as a QR code lives. */
const CODE_MS = 300_000;
/** What the platform does not take from somebody in a hurry. */
const BLOCKED_MS = 30_000;

/** Why a QR code came to nothing. */
type Ending = { login: Login } | { failed: string; pauseMs: number };

export function createLogIn({ api, baseUrl, state, tell, clock, log }: LoginOptions): LogIn {
  const pause = (ms: number, signal: AbortSignal) => clock.sleep(ms, signal);

  /** Rejects with WeixinError if the platform knows the QR code no more, or stays away. */
  async function follow(qr: { id: string; content: string }, why: string | undefined, signal: AbortSignal) {
    const waiting = (detail: string, more: Partial<ChannelStatus> = {}) =>
      tell({ state: 'waiting_for_login', detail, qr: qr.content, ...more });
    await waiting(why === undefined ? SCAN : `${why}: ${SCAN}`);
    let asked = baseUrl;
    let code: string | undefined;
    for (let failures = 0; ;) {
      const was = code;
      code = undefined;
      try {
        const answer = await api.qrStatus(asked, qr.id, was, signal);
        failures = 0;
        switch (answer.status) {
          case 'confirmed':
            return { login: answer.login } satisfies Ending;
          case 'expired':
            return { failed: 'the QR code expired', pauseMs: BETWEEN_MS } satisfies Ending;
          case 'verify_code_blocked':
            return { failed: 'too many wrong codes', pauseMs: BLOCKED_MS } satisfies Ending;
          case 'binded_redirect': {
            const failed = 'this WeChat account is bound to another bot; end that in WeChat';
            return { failed, pauseMs: BLOCKED_MS } satisfies Ending;
          }
          case 'scaned_but_redirect':
            asked = answer.baseUrl;
            break;
          case 'scaned':
            await waiting('scanned; confirm it on the phone');
            break;
          case 'need_verifycode': {
            const again = was === undefined ? '' : 'that was not the code; ';
            await waiting(`${again}enter the code that WeChat shows on the phone (/console)`, {
              asks: 'code',
            });
            code = await entered(signal);
            if (code === undefined)
              return { failed: 'no code was entered', pauseMs: BETWEEN_MS } satisfies Ending;
            continue;
          }
          case 'wait':
        }
      } catch (error) {
        if (!(error instanceof WeixinError) || error.kind !== 'away' || ++failures >= QUICK_TRIES)
          throw error;
        await pause(RETRY_MS.first, signal);
      }
      await pause(BETWEEN_MS, signal);
    }
  }

  /** Undefined: nobody entered it in time. */
  async function entered(signal: AbortSignal): Promise<string | undefined> {
    for (const until = clock.now() + CODE_MS; clock.now() < until; await pause(BETWEEN_MS, signal)) {
      const code = await state.get(CODE_KEY);
      if (typeof code !== 'string') continue;
      await state.delete(CODE_KEY);
      return code;
    }
    return undefined;
  }

  return async (reason, signal) => {
    let why = reason;
    for (let failures = 0; !signal.aborted;) {
      try {
        const qr = await api.qrCode(signal);
        await state.delete(CODE_KEY);
        const ending: Ending = await follow(qr, why, signal);
        failures = 0;
        if ('login' in ending) return ending.login;
        why = ending.failed;
        log.info({ why }, 'a QR code was not used; a new one is offered');
        await pause(ending.pauseMs, signal);
      } catch (error) {
        if (signal.aborted) return undefined;
        failures += 1;
        const detail = error instanceof Error ? error.message : 'unknown';
        log.warn({ error, failures }, 'logging in failed; trying again');
        await tell({ state: 'waiting_for_login', detail: `${detail}; trying again` }).catch(() => undefined);
        const waitMs = failures < QUICK_TRIES ? RETRY_MS.first : RETRY_MS.later;
        await pause(waitMs, signal).catch(() => undefined);
      }
    }
    return undefined;
  };
}
