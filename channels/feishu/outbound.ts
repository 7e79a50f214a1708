// Delivery → messages on the platform. Each part carries a uuid made of the delivery's id, so that sending it again is harmless.
import { z } from 'zod';
import type { Delivery } from '../../src/domain/delivery.ts';
import { languageOf, sentence, type Language } from '../../src/domain/sentences.ts';
import type { DeliveryResult } from '../../src/ports/channel.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import type { Content, FeishuApi, Target } from './client/api.ts';
import { FeishuError, resultOf } from './client/codes.ts';
import type { Live } from './live.ts';
import type { Address } from './parse.ts';
import { partsOf, renderPart, renderPlain } from './render.ts';

export interface OutboundOptions {
  api: FeishuApi;
  live: Pick<Live, 'settle' | 'untype'>;
  media: Pick<MediaStore, 'get'>;
  log: Logger;
}

export interface Outbound {
  deliver(delivery: Delivery, signal: AbortSignal): Promise<DeliveryResult>;
  /** Sends text outside of any run. Rejects with FeishuError. */
  say(address: Address, text: string, uuid: string): Promise<void>;
}

const addressSchema = z.object({
  chat: z.string(),
  message: z.string(),
  group: z.boolean(),
  thread: z.boolean(),
  chain: z.boolean().optional(),
});

/** In direct chats an answer quotes nothing, unless the question was a reply itself. */
export function targetOf(address: Record<string, unknown>): Target {
  const { chat, message, group, thread, chain } = addressSchema.parse(address);
  const quotes = group || thread || chain === true;
  return { chat, ...(quotes ? { replyTo: message } : {}), ...(thread ? { thread } : {}) };
}

export function createOutbound({ api, live, media, log }: OutboundOptions): Outbound {
  async function sendPart(target: Target, part: string, uuid: string): Promise<void> {
    try {
      await api.send(target, renderPart(part), uuid);
    } catch (error) {
      if (!(error instanceof FeishuError) || error.kind !== 'content') throw error;
      log.info({ error }, 'a formatted message was refused; it is sent as plain text');
      await api.send(target, renderPlain(part), uuid);
    }
  }

  async function sendFile(target: Target, file: File, language: Language, uuid: string): Promise<void> {
    const name = file.name ?? nameFor(file);
    if (/^https?:/.test(file.ref)) {
      await sendPart(target, `[${name}](${file.ref})`, uuid);
      return;
    }
    const found = await media.get(file.ref);
    if (!found) {
      await sendPart(target, sentence('file_gone', language, { name }), uuid);
      return;
    }
    const { bytes } = found;
    const asImage = file.type === 'image' && bytes.length <= MAX_IMAGE_BYTES;
    const content: Content = asImage
      ? { type: 'image', json: JSON.stringify({ image_key: await api.uploadImage(bytes) }) }
      : {
          type: 'file',
          json: JSON.stringify({ file_key: await api.uploadFile(bytes, name, fileType(name)) }),
        };
    await api.send(target, content, uuid);
  }

  async function send({ id, address, reply }: Delivery): Promise<void> {
    const target = targetOf(address);
    const parts = partsOf(reply.text);
    const draft = await live.settle(id, target, parts[0] ?? '…');
    const rest = draft === 'shown' ? 1 : 0;
    for (const [at, part] of parts.entries()) {
      // The first part has the draft's uuid, of which the platform shows one message only.
      if (at >= rest)
        await sendPart(target, part, at === 0 ? (draft === 'retracted' ? `${id}.p` : id) : `${id}.${at}`);
    }
    for (const [at, file] of (reply.attachments ?? []).entries())
      await sendFile(target, file, languageOf(reply.text), `${id}.f${at}`);
  }

  return {
    async deliver(delivery, signal) {
      if (!addressSchema.safeParse(delivery.address).success)
        return { status: 'park', error: 'the delivery has no Feishu address' };
      const { promise: late, resolve } = Promise.withResolvers<DeliveryResult>();
      const stop = () => resolve({ status: 'retry', error: 'not sent in time' });
      signal.addEventListener('abort', stop, { once: true });
      if (signal.aborted) stop();
      try {
        // A part that arrives after the time is over does no harm: the next attempt has the same uuid.
        const sent = send(delivery).then(
          (): DeliveryResult => ({ status: 'sent' }),
          (error: unknown) => resultOf(error),
        );
        return await Promise.race([sent, late]);
      } finally {
        signal.removeEventListener('abort', stop);
        const newest = delivery.messages.at(-1);
        if (newest !== undefined) {
          live.untype(newest).catch((error: unknown) => {
            log.debug({ error }, 'an old reaction could not be looked for');
          });
        }
      }
    },
    async say(address, text, uuid) {
      for (const [at, part] of partsOf(text).entries())
        await sendPart(targetOf(address), part, at === 0 ? uuid : `${uuid}.${at}`);
    },
  };
}

type File = NonNullable<Delivery['reply']['attachments']>[number];

/** The platform's limit; larger pictures go as files. */
const MAX_IMAGE_BYTES = 10_000_000;

/** A nameless file is called by its kind. */
const nameFor = ({ type, ref }: File): string => `${type}${/\.[a-z0-9]+$/.exec(ref)?.[0] ?? ''}`;

const FILE_TYPES: Record<string, string> = {
  pdf: 'pdf',
  doc: 'doc',
  docx: 'doc',
  xls: 'xls',
  xlsx: 'xls',
  ppt: 'ppt',
  pptx: 'ppt',
  mp4: 'mp4',
  opus: 'opus',
};
const fileType = (name: string): string =>
  FILE_TYPES[name.split('.').at(-1)?.toLowerCase() ?? ''] ?? 'stream';
