// Events of the platform, from either connection → accept(). Resolves when the platform may forget the event; rejects when it
// has to send it again.
import { z } from 'zod';
import type { FeishuSettings } from '../../config/schema.ts';
import type { Accept, ChannelMemory, ChannelMessage } from '../../src/ports/channel.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { FeishuApi } from './client/api.ts';
import { readContent, type Resource } from './content.ts';
import type { Media } from './media.ts';
import { eventIdOf, parseMessage, parseRecall, type Address } from './parse.ts';
import type { Names } from './names.ts';

export interface InboundOptions {
  account: string;
  settings: FeishuSettings;
  accept: Accept;
  /** Cancels the run of a message; see ChannelDeps. */
  cancel: (conversation: string, message: string) => Promise<boolean>;
  memory: ChannelMemory;
  api: FeishuApi;
  names: Names;
  media: Media;
  /** Sends a command's answer. */
  say: (address: Address, text: string, uuid: string) => Promise<void>;
  botOpenId: () => Promise<string>;
  log: Logger;
  now: () => number;
}

export type EventHandlers = Record<string, (event: unknown) => Promise<void>>;

/** The platform waits 3 s for an acknowledgement; what is only nice to know gets a part of it. */
const LOOKUP_MS = 1_200;
const MAX_QUOTE_CHARS = 2_000;

export function createInbound(options: InboundOptions): EventHandlers {
  const { account, settings, accept, memory, api, names, log, now } = options;
  const maxAgeMs = settings.max_age_minutes * 60_000;

  async function receive(event: unknown): Promise<void> {
    const parsed = parseMessage(event, {
      botOpenId: await options.botOpenId(),
      appId: settings.app_id,
      mentionAll: settings.mention_all,
    });
    if ('ignored' in parsed) return;
    const { message, address, resources, quoted } = parsed;
    for (const [id, name] of parsed.names) names.learn(id, name);
    if (now() - message.at > maxAgeMs) {
      log.info({ account, message: message.id }, 'old message dropped: it is older than max_age_minutes');
      return;
    }
    // Nothing is fetched for what people say to each other; who says it is known for what the bot is told later.
    const wanted = asks(message);
    const limit = AbortSignal.timeout(LOOKUP_MS);
    const [sender, quote, files] = await Promise.all([
      senderOf(message, wanted || settings.group.context_messages > 0 ? limit : AbortSignal.abort()),
      wanted && quoted !== undefined ? inTime(quoteOf(quoted), limit) : undefined,
      wanted && resources.length > 0 ? options.media.fetch(message.id, resources) : undefined,
    ]);
    // What somebody asks about is often the picture that they quote.
    const shown = quoted !== undefined && quote && quote.resources.length > 0 && resources.length === 0;
    const quotedFiles = shown ? await options.media.fetch(quoted, quote.resources) : undefined;
    const attachments = [...(files?.attachments ?? []), ...(quotedFiles?.attachments ?? [])];
    const isCommand = /^\s*[/／]/u.test(message.text);
    if (isCommand && (await memory.find(`command:${message.id}`)) !== undefined) return;
    const accepted = await accept(account, {
      ...message,
      sender,
      text: [message.text, ...(files?.notes ?? [])].filter((part) => part !== '').join('\n\n'),
      ...(quote && quote.text !== '' ? { quote: quote.text } : {}),
      ...(attachments.length > 0 ? { attachments } : {}),
    });
    if (accepted.status === 'command') {
      // Remembered when it is done, so that a redelivery doesn't carry it out again; the answer is sent once by its uuid.
      await memory.remember(`command:${message.id}`, '');
      await options.say(address, accepted.reply, `command.${message.id}`);
    } else if (accepted.status !== 'ignored') {
      // A duplicate, too: the first time may have ended before this.
      await memory.remember(`message:${message.id}`, accepted.conversation);
    }
  }

  /** Likely to be let through by the gate, which decides. */
  function asks({ mentioned, text }: ChannelMessage): boolean {
    const { trigger, prefix } = settings.group;
    return (
      mentioned === true ||
      trigger === 'always' ||
      (trigger === 'prefix' && text.trimStart().startsWith(prefix))
    );
  }

  async function recall(event: unknown): Promise<void> {
    const message = parseRecall(event);
    const conversation = await memory.find(`message:${message}`);
    if (conversation === undefined) return;
    // If it isn't running yet, its run is cancelled when it starts.
    await memory.remember(`recalled:${message}`, '');
    await options.cancel(conversation, message);
  }

  /** People by their name; other bots by their app, which is the same for every account of this server. */
  async function senderOf(message: ChannelMessage, signal: AbortSignal): Promise<ChannelMessage['sender']> {
    const { sender } = message;
    if (!sender.bot) {
      const name = await names.of(sender.id, signal);
      return { ...sender, ...(name === undefined ? {} : { name }) };
    }
    // The id in the event is one that only this app knows the other by.
    const told = signal.aborted ? undefined : await inTime(api.message(message.id), signal);
    return told?.sender.type === 'app' && told.sender.id !== '' ? { ...sender, id: told.sender.id } : sender;
  }

  async function quoteOf(id: string): Promise<{ text: string; resources: Resource[] } | undefined> {
    const found = await api.message(id);
    if (!found) return undefined;
    const mentions = found.mentions.map(({ key, name, id: openId }) => ({ key, name, openId }));
    const { text, resources } = readContent(found.type, found.content, mentions, '');
    const who = found.sender.type === 'app' ? undefined : names.known(found.sender.id);
    const lines = text === '' ? [] : text.slice(0, MAX_QUOTE_CHARS).split('\n');
    const quoted = [...(who === undefined ? [] : [`${who}:`]), ...lines].map((line) => `> ${line}`);
    return { text: quoted.join('\n'), resources };
  }

  /** Undefined if it fails or takes too long: the message counts, not what could be learned about it. */
  async function inTime<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    const late = new Promise<undefined>((resolve) => {
      signal.addEventListener('abort', () => resolve(undefined), { once: true });
    });
    const guarded = work.catch((error: unknown) => {
      log.debug({ account, error }, 'another message could not be fetched');
      return undefined;
    });
    return Promise.race([guarded, late]);
  }

  /** An event is handled once, on whatever process it comes again; one of another shape will not get better by that. */
  const reading = (handle: (event: unknown) => Promise<void>) => async (event: unknown) => {
    const id = eventIdOf(event);
    try {
      if (id !== undefined && (await memory.find(`event:${id}`)) !== undefined) return;
      await handle(event);
      // After the message is durable: an event that failed has to work when it comes again.
      if (id !== undefined) await memory.remember(`event:${id}`, '');
    } catch (error) {
      if (!(error instanceof z.ZodError)) {
        log.warn({ account, error }, 'an event could not be taken; the platform sends it again');
        throw error;
      }
      log.warn(
        { account, fields: error.issues.map(({ path }) => path.join('.')) },
        'event of an unknown shape dropped',
      );
    }
  };

  return {
    'im.message.receive_v1': reading(receive),
    'im.message.recalled_v1': reading(recall),
    // Subscribed to by many apps, of no use here; without a handler each one would be a warning.
    'im.message.message_read_v1': async () => {},
    'im.message.reaction.created_v1': async () => {},
    'im.message.reaction.deleted_v1': async () => {},
    'im.chat.access_event.bot_p2p_chat_entered_v1': async () => {},
    'im.chat.member.bot.added_v1': async () => {},
    'im.chat.member.bot.deleted_v1': async () => {},
  };
}
