// Delivery → messages of one item each. Every part has an id of its own that stays the same when its fate is unknown; what was
// sent of a long answer is remembered, so that only the rest is sent again.
import { z } from 'zod';
import type { Delivery } from '../../src/domain/delivery.ts';
import { languageOf, sentence } from '../../src/domain/sentences.ts';
import type { ChannelMemory, DeliveryResult } from '../../src/ports/channel.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import type { Item, Login, Upload, WeixinApi } from './client/api.ts';
import { WeixinError } from './client/errors.ts';
import type { People } from './people.ts';
import { partsOf } from './render.ts';

export interface OutboundOptions {
  api: Pick<WeixinApi, 'send' | 'upload'>;
  people: Pick<People, 'context'>;
  memory: ChannelMemory;
  media: Pick<MediaStore, 'get'>;
  /** Undefined: nobody is logged in. */
  login: () => Promise<Login | undefined>;
  /** The platform says that this login is over. */
  refused: (login: Login) => Promise<void>;
  log: Logger;
  now: () => number;
}

export interface Outbound {
  deliver(delivery: Delivery, signal: AbortSignal): Promise<DeliveryResult>;
  /** Sends text outside of any run, once for each id. Rejects with WeixinError or AppError. */
  say(user: string, text: string, id: string, signal: AbortSignal): Promise<void>;
}

type Attachment = NonNullable<Delivery['reply']['attachments']>[number];
/** What one message shows; files are uploaded when their turn comes. */
type Part = { text: string } | { file: Attachment };

const addressSchema = z.object({ user: z.string().min(1) });
const LOGIN_WAIT_MS = 10_000;
const PAUSE_MS = { first: 3_000, most: 60_000 };
const MAX_REFUSALS = 1_000;

export function createOutbound(options: OutboundOptions): Outbound {
  const { api, people, memory, media, login: current, refused, log, now } = options;
  /** How often a part was refused for certain: its next try is a message of its own. */
  const refusals = new Map<string, number>();
  let pauseMs = 0;
  let pausedUntil = 0;

  async function itemOf(login: Login, user: string, part: Part, language: 'zh' | 'en', signal: AbortSignal) {
    if ('text' in part) return textItem(part.text);
    const { file } = part;
    const name = file.name ?? nameFor(file);
    if (/^https?:/.test(file.ref)) return textItem(`${name}: ${file.ref}`);
    const found = await media.get(file.ref);
    if (!found) return textItem(sentence('file_gone', language, { name }));
    const upload: Upload = { kind: kindOf(found.media_type), bytes: found.bytes, name };
    return api.upload(login, user, upload, signal);
  }

  async function sendPart(login: Login, user: string, item: Item, id: string, signal: AbortSignal) {
    const refusal = refusals.get(id);
    try {
      const context = await people.context(login.botId, user);
      const clientId = refusal === undefined ? id : `${id}.r${refusal}`;
      await api.send(login, { to: user, clientId, item, context }, signal);
      refusals.delete(id);
      pauseMs = 0;
    } catch (error) {
      if (error instanceof WeixinError && error.kind !== 'away') {
        if (refusals.size >= MAX_REFUSALS) refusals.delete(refusals.keys().next().value ?? '');
        refusals.set(id, (refusal ?? 0) + 1);
      }
      throw error;
    }
  }

  async function sendAll(login: Login, user: string, parts: Part[], id: string, signal: AbortSignal) {
    const language = languageOf(parts.map((part) => ('text' in part ? part.text : '')).join('\n'));
    for (const [at, part] of parts.entries()) {
      const partId = `${id}.${at}`;
      const isLast = at === parts.length - 1;
      if (!isLast && (await memory.find(`sent:${partId}`)) !== undefined) continue;
      const item = await itemOf(login, user, part, language, signal);
      await sendPart(login, user, item, partId, signal);
      if (!isLast) await memory.remember(`sent:${partId}`, '');
    }
  }

  /** What becomes of a delivery that failed like this. */
  async function resultOf(error: unknown, login: Login): Promise<DeliveryResult> {
    if (!(error instanceof WeixinError)) return { status: 'retry', error: 'the storage failed' };
    if (error.kind === 'dead') {
      try {
        await refused(login);
      } catch (failure) {
        log.warn({ error: failure }, 'a dead login could not be forgotten; the next poll finds it');
      }
      return waitForLogin();
    }
    if (error.kind !== 'throttled') return { status: 'retry', error: error.message };
    // All messages of the account count together, so all of them wait.
    pauseMs = Math.min(pauseMs === 0 ? PAUSE_MS.first : pauseMs * 2, PAUSE_MS.most);
    pausedUntil = now() + pauseMs;
    return { status: 'retry', error: error.message, afterMs: pauseMs };
  }

  return {
    async deliver(delivery, signal) {
      const address = addressSchema.safeParse(delivery.address);
      if (!address.success) return { status: 'park', error: 'the delivery has no WeChat address' };
      const waitMs = pausedUntil - now();
      if (waitMs > 0) return { status: 'wait', error: 'WeChat asked for patience', afterMs: waitMs };
      let login: Login | undefined;
      try {
        login = await current();
      } catch {
        // Told by the storage's own check.
        return { status: 'retry', error: 'the storage failed' };
      }
      if (!login) return waitForLogin();
      const { text, attachments = [] } = delivery.reply;
      const parts: Part[] = [
        ...partsOf(text).map((words) => ({ text: words })),
        ...attachments.map((file) => ({ file })),
      ];
      try {
        await sendAll(login, address.data.user, parts, delivery.id, signal);
        return { status: 'sent' };
      } catch (error) {
        return resultOf(error, login);
      }
    },
    async say(user, text, id, signal) {
      // An answer that was given before is not repeated when its message comes again.
      if ((await memory.find(`said:${id}`)) !== undefined) return;
      const login = await current();
      if (!login) throw new WeixinError('dead', 'nobody is logged in');
      await sendAll(
        login,
        user,
        partsOf(text).map((words) => ({ text: words })),
        id,
        signal,
      );
      await memory.remember(`said:${id}`, '');
    },
  };
}

const waitForLogin = (): DeliveryResult => ({
  status: 'wait',
  error: 'nobody is logged in: scan the QR code that /console shows',
  afterMs: LOGIN_WAIT_MS,
});

const textItem = (text: string): Item => ({ type: 1, text_item: { text } });

/** A nameless file is called by its kind. */
const nameFor = ({ type, ref }: Attachment): string => `${type}${/\.[a-z0-9]+$/.exec(ref)?.[0] ?? ''}`;

function kindOf(mediaType: string): Upload['kind'] {
  if (mediaType.startsWith('image/')) return 'image';
  return mediaType === 'video/mp4' ? 'video' : 'file';
}
