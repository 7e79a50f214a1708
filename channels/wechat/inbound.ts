// Messages that the child hands over → accept(). WeChat sends nothing twice, so that a message which can't be made durable now is
// kept here and tried again until it can, or the channel stops.
import type { WechatSettings } from '../../config/schema.ts';
import type { Attachment } from '../../src/domain/inbound.ts';
import { AppError } from '../../src/domain/errors.ts';
import type { Accept, Accepted, ChannelMemory } from '../../src/ports/channel.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import type { Handed, HandedFile } from './ipc.ts';
import { addressOf, toMessage, type Address } from './parse.ts';

export interface InboundOptions {
  account: string;
  settings: WechatSettings;
  accept: Accept;
  cancel: (conversation: string, message: string) => Promise<boolean>;
  memory: ChannelMemory;
  media: MediaStore;
  /** Sends a command's answer. Never rejects. */
  say: (address: Address, text: string) => Promise<void>;
  clock: Clock;
  log: Logger;
  /** Ends the retries. */
  signal: AbortSignal;
}

export interface Inbound {
  /** True once the message is durable or not for the bot; false if the channel stops before. Never rejects. */
  take(handed: Handed): Promise<boolean>;
  /** A message was taken back. Never rejects. */
  recall(id: string): Promise<void>;
}

const RETRY_MS = { first: 500, most: 30_000 };

export function createInbound(options: InboundOptions): Inbound {
  const { account, settings, accept, memory, media, clock, log, signal } = options;
  const maxAgeMs = settings.max_age_minutes * 60_000;

  /** Until it works, or the channel stops: then undefined. */
  async function persistently<T>(message: string, work: () => Promise<T>): Promise<T | undefined> {
    for (let waitMs = RETRY_MS.first; !signal.aborted; waitMs = Math.min(waitMs * 2, RETRY_MS.most)) {
      try {
        return await work();
      } catch (error) {
        if (signal.aborted) break;
        const afterMs = (error instanceof AppError ? error.retryAfterMs : undefined) ?? waitMs;
        log.warn(
          { message, error, afterMs },
          'a message could not be made durable; it is kept and tried again',
        );
        await clock.sleep(afterMs, signal).catch(() => undefined);
      }
    }
    return undefined;
  }

  async function keep({ kind, name, media_type, bytes }: HandedFile): Promise<Attachment | string> {
    try {
      const kept = await media.put({ bytes, name, ...(media_type === undefined ? {} : { media_type }) });
      return { type: kind, ...kept };
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'media_refused') throw error;
      return `(a file of type ${kind}, ${name}: ${error.message})`;
    }
  }

  async function bring(handed: Handed): Promise<Accepted> {
    const kept = await Promise.all(handed.files.map((file) => keep(file)));
    const attachments = kept.filter((one) => typeof one !== 'string');
    const notes = kept.filter((one) => typeof one === 'string');
    return accept(account, toMessage(handed, attachments, notes));
  }

  return {
    async take(handed) {
      if (clock.now() - handed.at > maxAgeMs) {
        log.info({ message: handed.id }, 'old message dropped: it is older than max_age_minutes');
        return true;
      }
      const accepted = await persistently(handed.id, () => bring(handed));
      if (!accepted) return false;
      if (accepted.status === 'command' && !accepted.repeated)
        await options.say(addressOf(handed), accepted.reply);
      if (accepted.status === 'queued') {
        await memory.remember(`message:${handed.id}`, accepted.conversation).catch((error: unknown) => {
          log.warn({ message: handed.id, error }, 'a message can no longer be taken back');
        });
      }
      return true;
    },
    async recall(id) {
      try {
        const conversation = await memory.find(`message:${id}`);
        if (conversation !== undefined) await options.cancel(conversation, id);
      } catch (error) {
        log.warn({ message: id, error }, 'the run of a message that was taken back could not be cancelled');
      }
    },
  };
}
