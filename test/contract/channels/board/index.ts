// The board channel: one account on a message board. Messages come from a long poll, answers are posted.
import { z } from 'zod';
import type { Accept, Channel, ChannelStatus, DeliveryResult } from '../../../../src/ports/channel.ts';
import type { Clock } from '../../../../src/ports/clock.ts';
import type { Logger } from '../../../../src/ports/log.ts';
import { parseUpdate } from './parse.ts';

export interface BoardOptions {
  account: string;
  settings: { url: string; token: string };
  accept: Accept;
  clock: Clock;
  log: Logger;
}

/** Longer than the board holds a poll. */
const POLL_MS = 40_000;
const SEND_MS = 10_000;
const RETRY_MS = { first: 200, most: 30_000 };

const answerSchema = z.object({ updates: z.array(z.looseObject({ id: z.string() })) });

export function createBoardChannel({ account, settings, accept, clock, log }: BoardOptions): Channel {
  const stopped = new AbortController();
  let state: ChannelStatus = { state: 'stopped' };
  let polling: Promise<void> | undefined;

  function call(path: string, init: RequestInit, signal: AbortSignal): Promise<Response> {
    const headers = { authorization: `Bearer ${settings.token}`, 'content-type': 'application/json' };
    const either = AbortSignal.any([stopped.signal, signal]);
    return fetch(new URL(path, settings.url), { ...init, headers, signal: either });
  }

  /** The board shows one message for each key, however often it is sent. */
  const send = (room: string, text: string, key: string, signal: AbortSignal) =>
    call('/messages', { method: 'POST', body: JSON.stringify({ room, text, key }) }, signal);

  async function take(update: unknown): Promise<void> {
    const message = parseUpdate(update);
    if (!message) return;
    const accepted = await accept(account, message);
    if (accepted.status === 'command')
      await send(message.chat, accepted.reply, `command.${message.id}`, AbortSignal.timeout(SEND_MS));
  }

  async function poll(): Promise<void> {
    // The board keeps what nobody has asked beyond: after a restart it begins with that.
    let after = '';
    let waitMs = RETRY_MS.first;
    while (!stopped.signal.aborted) {
      try {
        const path = `/updates?after=${encodeURIComponent(after)}`;
        const response = await call(path, {}, AbortSignal.timeout(POLL_MS));
        if (!response.ok) throw new Error(`the board answered ${response.status}`);
        const { updates } = answerSchema.parse(await response.json());
        state = { state: 'connected' };
        for (const update of updates) {
          await take(update);
          // Only now: it is durable.
          after = update.id;
        }
        waitMs = RETRY_MS.first;
      } catch (error) {
        if (stopped.signal.aborted) return;
        state = { state: 'disconnected', detail: 'trying again; see the log' };
        log.warn({ account, error, waitMs }, 'updates could not be taken; they are asked for again');
        await clock.sleep(waitMs, stopped.signal).catch(() => undefined);
        waitMs = Math.min(waitMs * 2, RETRY_MS.most);
      }
    }
  }

  return {
    account,
    type: 'board',
    async start() {
      if (polling || stopped.signal.aborted) return;
      state = { state: 'starting' };
      polling = poll();
    },
    async stop() {
      stopped.abort();
      await polling;
      state = { state: 'stopped' };
    },
    status: () => state,
    async deliver({ id, address, reply }, signal) {
      const { room } = address;
      if (typeof room !== 'string') return { status: 'park', error: 'the delivery has no room' };
      try {
        return resultOf(await send(room, reply.text, id, signal));
      } catch {
        // The URL and the headers are nobody's business: what is thrown is not passed on.
        return { status: 'retry', error: 'the board did not answer' };
      }
    },
  };
}

function resultOf({ ok, status, headers }: Response): DeliveryResult {
  if (ok) return { status: 'sent' };
  const error = `the board answered ${status}`;
  if (status === 410) return { status: 'drop', error };
  if (status === 429)
    return { status: 'retry', error, afterMs: 1_000 * Number(headers.get('retry-after') ?? 1) };
  return { status: status < 500 ? 'park' : 'retry', error };
}
