// The delivery lane: claims the oldest delivery of a conversation, sends it through its channel, and settles, retries
// or parks it. In order, one at a time per conversation; every attempt carries the same delivery id.
import type { Config } from '../../config/schema.ts';
import type { Delivery } from '../domain/delivery.ts';
import type { Channel, DeliveryResult } from '../ports/channel.ts';
import type { LaneHandler, LaneOutcome } from '../ports/lanes.ts';
import type { Logger } from '../ports/log.ts';
import type { DeliveryLease, Outbox } from '../ports/outbox.ts';

export interface DeliverOptions {
  outbox: Outbox;
  channels: ReadonlyMap<string, Channel>;
  settings: () => Config['delivery'];
  log: Logger;
  count: (account: string, result: DeliveryResult['status'], seconds: number) => void;
  /** 0..1, for the jitter. */
  random?: () => number;
}

/** Longer than an attempt may take, so that a lease never ends while its attempt is still going on. */
const LEASE_MARGIN_MS = 3_000;

export function createDeliver(options: DeliverOptions): LaneHandler {
  const { outbox, channels, log, count, random = Math.random } = options;

  async function send(delivery: Delivery, signal: AbortSignal): Promise<DeliveryResult> {
    const channel = channels.get(delivery.account);
    if (!channel) return { status: 'park', error: `channel account "${delivery.account}" is not configured` };
    return channel.deliver(delivery, signal);
  }

  async function record(
    lease: DeliveryLease,
    result: DeliveryResult,
    attempt: number,
  ): Promise<{ more: boolean } | { retryInMs: number } | false> {
    const settings = options.settings();
    if (result.status === 'retry' && attempt < settings.max_attempts) {
      const delayMs = result.afterMs ?? backOffMs(attempt, settings, random());
      return (await outbox.retryLater(lease, delayMs, result.error)) && { retryInMs: delayMs };
    }
    if (result.status === 'wait')
      return (await outbox.postpone(lease, result.afterMs, result.error)) && { retryInMs: result.afterMs };
    if (result.status === 'retry' || result.status === 'park') return outbox.park(lease, result.error);
    return outbox.settle(lease);
  }

  return async (conversation, signal): Promise<LaneOutcome> => {
    const { timeout_ms } = options.settings();
    const claim = await outbox.claim(conversation, timeout_ms + LEASE_MARGIN_MS);
    if (claim.status === 'empty') return 'idle';
    if (claim.status === 'wait') return { retryInMs: claim.forMs };
    const { lease, delivery, attempt } = claim;
    const startedAt = performance.now();
    const result = await send(delivery, AbortSignal.any([signal, AbortSignal.timeout(timeout_ms)]));
    const outcome = await record(lease, result, attempt);
    count(delivery.account, result.status, (performance.now() - startedAt) / 1000);

    const fields = {
      account: delivery.account,
      conversation,
      run: delivery.run,
      delivery: delivery.id,
      attempt,
    };
    if (outcome === false) {
      log.warn(fields, 'delivery lease was lost; another process sends it again with the same id');
      return 'idle';
    }
    if (result.status === 'sent') log.debug(fields, 'delivered');
    else if (result.status === 'wait') log.debug({ ...fields, reason: result.error }, 'delivery waits');
    else if ('retryInMs' in outcome) {
      log.info(
        { ...fields, error: result.error, retryInMs: outcome.retryInMs },
        'delivery failed; it is retried',
      );
    } else if (result.status === 'drop') log.info({ ...fields, error: result.error }, 'delivery dropped');
    else
      log.error({ ...fields, error: result.error }, 'delivery parked; see GET /api/deliveries?state=parked');
    if ('retryInMs' in outcome) return outcome;
    return outcome.more ? 'more' : 'idle';
  };
}

/** Exponential, with full jitter in its upper half. */
export function backOffMs(
  attempt: number,
  { base_ms, max_ms }: { base_ms: number; max_ms: number },
  random: number,
): number {
  const full = Math.min(max_ms, base_ms * 2 ** (attempt - 1));
  return Math.round(full / 2 + (full / 2) * random);
}
