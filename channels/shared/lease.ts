// One process at a time acts for an account: the others wait, and one of them goes on when it ends or dies.
import { randomUUID } from 'node:crypto';
import type { ChannelState } from '../../src/ports/channel-state.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';

export interface WhileHeldOptions {
  state: Pick<ChannelState, 'lease' | 'release'>;
  /** How long a process may be silent before another one takes over. */
  leaseMs: number;
  clock: Clock;
  log: Logger;
  /** Ends it all. */
  signal: AbortSignal;
  /** Called when this process may act; its signal aborts when it may no more. Called again if it returns before. */
  work(signal: AbortSignal): Promise<void>;
  /** Called now and then while another process acts. */
  waiting(): Promise<void>;
}

/** Resolves when the signal has aborted, with the right given back. Never rejects. */
export async function whileHeld(options: WhileHeldOptions): Promise<void> {
  const { state, leaseMs, clock, log, signal, work, waiting } = options;
  const holder = randomUUID();
  const pauseMs = leaseMs / 3;
  const pause = (until: AbortSignal) => clock.sleep(pauseMs, until).catch(() => undefined);
  let heldAt = 0;

  async function take(): Promise<boolean> {
    const at = clock.now();
    const held = await state.lease(holder, leaseMs);
    if (held) heldAt = at;
    return held;
  }

  async function renew(stop: AbortController): Promise<void> {
    for (await pause(stop.signal); !stop.signal.aborted; await pause(stop.signal)) {
      const held = await take().catch((error: unknown) => {
        log.warn({ error }, 'the right to act for the account could not be renewed');
        // Its end is near, and nobody else can be asked.
        return clock.now() - heldAt < leaseMs - pauseMs;
      });
      if (!held) stop.abort();
    }
  }

  while (!signal.aborted) {
    try {
      if (await take()) {
        const stop = new AbortController();
        const ending = () => stop.abort();
        signal.addEventListener('abort', ending, { once: true });
        if (signal.aborted) ending();
        const renewing = renew(stop);
        try {
          await work(stop.signal);
        } finally {
          stop.abort();
          signal.removeEventListener('abort', ending);
          await renewing;
        }
      } else await waiting();
    } catch (error) {
      log.warn({ error }, 'acting for the account was interrupted; it goes on');
    }
    if (!signal.aborted) await pause(signal);
  }
  await state.release(holder).catch((error: unknown) => {
    log.debug({ error }, 'the right to act for the account ends by itself');
  });
}
