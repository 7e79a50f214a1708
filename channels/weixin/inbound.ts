// Messages of a poll → accept(), in order. Resolves when all are durable, so that the cursor may move past them; rejects when
// the platform has to give them once more.
import { z } from 'zod';
import type { WeixinSettings } from '../../config/schema.ts';
import { AppError } from '../../src/domain/errors.ts';
import { languageOf, sentence } from '../../src/domain/sentences.ts';
import type { Accept, Accepted } from '../../src/ports/channel.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { Fetched } from '../shared/files.ts';
import type { Login } from './client/api.ts';
import type { Media } from './media.ts';
import { parseMessage, type Parsed } from './parse.ts';
import type { People } from './people.ts';

export interface InboundOptions {
  account: string;
  settings: Pick<WeixinSettings, 'max_age_minutes'>;
  accept: Accept;
  people: Pick<People, 'heard'>;
  media: Media;
  /** Sends what is answered without a run; reports its own failures. */
  say: (user: string, text: string, id: string) => void;
  log: Logger;
  now: () => number;
}

export type Take = (messages: readonly unknown[], login: Login, signal: AbortSignal) => Promise<void>;

type Message = Exclude<Parsed, { ignored: string }>;

export function createInbound(options: InboundOptions): Take {
  const { account, settings, accept, people, media, say, log, now } = options;
  const maxAgeMs = settings.max_age_minutes * 60_000;

  /** Undefined: nothing to take in. What can't be read gets no better by being given again. */
  function read(raw: unknown, botId: string): Message | undefined {
    try {
      const parsed = parseMessage(raw, botId, now());
      if ('ignored' in parsed) return undefined;
      if (now() - (parsed.message.at ?? 0) <= maxAgeMs) return parsed;
      log.info(
        { message: parsed.message.id },
        'old message dropped: it waited for longer than max_age_minutes',
      );
    } catch (error) {
      const fields = error instanceof z.ZodError ? error.issues.map(({ path }) => path.join('.')) : [];
      log.warn({ fields }, 'message of an unknown shape dropped');
    }
    return undefined;
  }

  async function receive({ message, user, context }: Message, files: Fetched, bot: string): Promise<void> {
    // Before the message: its run may be over before anything else is done here.
    if (context !== undefined) await people.heard(bot, user, context);
    const text = [message.text, ...files.notes].filter(Boolean).join('\n\n');
    let accepted: Accepted;
    try {
      accepted = await accept(account, {
        ...message,
        text,
        ...(files.attachments.length > 0 ? { attachments: files.attachments } : {}),
      });
    } catch (error) {
      // One person's full conversation holds up nobody else's messages.
      if (!(error instanceof AppError) || error.code !== 'conversation_full') throw error;
      say(user, sentence('storage_trouble', languageOf(text)), `full.${message.id}`);
      return;
    }
    if (accepted.status === 'command') say(user, accepted.reply, `command.${message.id}`);
  }

  return async (messages, { botId }, signal) => {
    const wanted = messages.map((raw) => read(raw, botId)).filter((message) => message !== undefined);
    const files = await Promise.all(wanted.map(({ resources }) => media.fetch(resources, signal)));
    for (const [at, message] of wanted.entries()) {
      // Another process has taken over, or the channel stops: what is not taken in yet is given again.
      signal.throwIfAborted();
      await receive(message, files[at] ?? { attachments: [], notes: [] }, botId);
    }
  };
}
