// Delivery → messages in a chat, through the child. WeChat takes no idempotency key: what was sent is remembered part by part,
// and an attempt whose end nobody saw is asked for before it is made again.
import type { Delivery } from '../../src/domain/delivery.ts';
import type { ChannelMemory, DeliveryResult } from '../../src/ports/channel.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import type { Account, Ending } from './account.ts';
import type { Send } from './ipc.ts';
import { readAddress, targetOf, type Address } from './parse.ts';
import { partsOf } from './render.ts';

export interface OutboundOptions {
  wechat: Pick<Account, 'send' | 'away' | 'isFresh'>;
  /** What becomes of a delivery of which nobody knows whether it was sent. */
  unknownOutcome: 'resend' | 'park';
  memory: ChannelMemory;
  media: MediaStore;
  log: Logger;
}

export interface Outbound {
  deliver(delivery: Delivery, signal: AbortSignal): Promise<DeliveryResult>;
  /** Sends text outside of any run, once. Never rejects. */
  say(address: Address, text: string): Promise<void>;
}

type Content = Send['content'];

const FRESH_RETRY_MS = 5_000;

export function createOutbound(options: OutboundOptions): Outbound {
  const { memory, media, log } = options;
  const { send, away, isFresh } = options.wechat;
  /** Parts at work in the child, those included that a delivery no longer waits for. */
  const sending = new Map<string, Promise<Ending>>();

  function sendOnce(key: string, address: Address, content: Content): Promise<Ending> {
    const known = sending.get(key);
    if (known) return known;
    const sent = send({ to: targetOf(address), content })
      .then(async (ending) => {
        if (ending.outcome === 'sent') await memory.remember(key, '');
        return ending;
      })
      .catch((error: unknown): Ending => {
        log.warn({ error }, 'what was sent could not be noted; after a crash it may be sent again');
        return { outcome: 'sent', reason: '' };
      })
      .finally(() => sending.delete(key));
    sending.set(key, sent);
    return sent;
  }

  async function contentsOf({ reply }: Delivery, { group, talker }: Address): Promise<Content[]> {
    const texts = partsOf(reply.text);
    const files: Content[] = [];
    for (const { ref, name } of reply.attachments ?? []) {
      const kept = ref.startsWith('media:') ? await media.get(ref) : undefined;
      if (kept) files.push({ file: { name: name ?? ref.slice(-24), bytes: kept.bytes } });
      // An address is for people to open; a file that has expired is at least named.
      else
        texts.push(ref.startsWith('media:') ? `(${name ?? 'file'})` : [name, ref].filter(Boolean).join(' '));
    }
    const said = texts.map((text, at): Content => (group && at === 0 ? { text, mention: talker } : { text }));
    return [...said, ...files];
  }

  async function attempt(delivery: Delivery, address: Address): Promise<DeliveryResult> {
    for (const [at, content] of (await contentsOf(delivery, address)).entries()) {
      const key = `sent:${delivery.id}.${at}`;
      if ((await memory.find(key)) !== undefined) continue;
      const { outcome, reason } = await sendOnce(key, address, content);
      if (outcome !== 'sent') return resultOf(outcome, reason);
    }
    return { status: 'sent' };
  }

  function resultOf(outcome: Exclude<Ending['outcome'], 'sent'>, reason: string): DeliveryResult {
    switch (outcome) {
      case 'logged_out':
        return { status: 'wait', error: reason, afterMs: away()?.afterMs ?? FRESH_RETRY_MS };
      case 'gone':
        if (isFresh()) return { status: 'retry', error: reason, afterMs: FRESH_RETRY_MS };
        return { status: 'park', error: reason };
      case 'lost':
        if (options.unknownOutcome === 'park')
          return { status: 'park', error: `${reason}; it may have arrived` };
        return { status: 'retry', error: reason };
      case 'refused':
        return { status: 'retry', error: reason };
    }
  }

  return {
    async deliver(delivery, signal) {
      const address = readAddress(delivery.address);
      if (!address) return { status: 'park', error: 'the delivery has no WeChat address' };
      const absence = away();
      if (absence) return { status: 'wait', error: absence.reason, afterMs: absence.afterMs };
      const { promise: late, resolve } = Promise.withResolvers<DeliveryResult>();
      const stop = () => resolve({ status: 'retry', error: 'not sent in time' });
      signal.addEventListener('abort', stop, { once: true });
      if (signal.aborted) stop();
      try {
        const sent = attempt(delivery, address).catch((error: unknown): DeliveryResult => {
          log.warn({ delivery: delivery.id, error }, 'a delivery could not be prepared');
          return { status: 'retry', error: 'storage or media could not be read' };
        });
        return await Promise.race([late, sent]);
      } finally {
        signal.removeEventListener('abort', stop);
      }
    },
    async say(address, text) {
      for (const [at, part] of partsOf(text).entries()) {
        const mention = address.group && at === 0 ? { mention: address.talker } : {};
        const { outcome, reason } = await send({
          to: targetOf(address),
          content: { text: part, ...mention },
        });
        if (outcome === 'sent') continue;
        log.warn({ outcome, reason }, 'the answer to a command could not be sent');
        return;
      }
    },
  };
}
