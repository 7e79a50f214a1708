// accept: the way in, the same for every channel. Gate, commands, append (durable), wake. The platform gets its
// acknowledgement only after this resolves.
import type { AgentSettings, PeopleSettings } from '../../config/schema.ts';
import { conversationId, conversationOf } from '../domain/conversation.ts';
import { AppError, type ErrorCode } from '../domain/errors.ts';
import type { InboundMessage, Note, Sender } from '../domain/inbound.ts';
import type { Accept, Accepted, ChannelMessage } from '../ports/channel.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { Storage } from '../ports/storage.ts';
import { parseCommand, type Command, type RunCommand } from './commands.ts';
import { createGate, isAdmin } from './gate.ts';
import type { Overload } from './overload.ts';
import { greetStranger } from './pairing.ts';

export interface AcceptOptions {
  storage: Pick<Storage, 'store' | 'reader' | 'control' | 'lanes' | 'index' | 'notes' | 'people'>;
  /** Read for every message, so that a changed setting applies to the next one. */
  settings: () => AgentSettings;
  /** Of the account. */
  people: (account: string) => PeopleSettings;
  /** The id belongs to an account of this server, on the same platform as `account`. */
  isOurs: (account: string, sender: string) => boolean;
  command: RunCommand;
  draining: () => boolean;
  overload: Overload;
  /** Most messages that may wait in one conversation; 0: any number. */
  maxWaiting: () => number;
  clock: Clock;
  log: Logger;
  count: (account: string, result: string) => void;
}

/** Longest note, in characters: it is context, and one person's essay is not to fill the model's window. */
const MAX_NOTE_CHARS = 2_000;
/** Of a message that would fit in later: nothing is wrong. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['conversation_full', 'overloaded']);
const FULL_RETRY_MS = 10_000;

export function createAccept(options: AcceptOptions): Accept {
  const { storage, clock, log, count } = options;
  const { store, reader, control, lanes, index, notes, people } = storage;
  const gate = createGate({ people, reader, isOurs: options.isOurs });
  /** Commands at work in this process, so that a redelivery waits for the first one's answer. */
  const commanding = new Map<string, Promise<Accepted>>();

  async function append(message: InboundMessage): Promise<Accepted> {
    using _admitted = await options.overload.admit();
    const maxWaiting = options.maxWaiting();
    if (message.busy === 'interrupt') await interrupt(message, maxWaiting);
    const { duplicate, full } = await store.append(message, { maxWaiting });
    if (full) throw tooMany(maxWaiting);
    // A duplicate is woken as well: the first one's wake may have died with its process.
    await lanes.wake(message.conversation).catch((error: unknown) => {
      log.warn(
        { error, conversation: message.conversation },
        'wake failed; the sweep will pick the message up',
      );
    });
    return { status: duplicate ? 'duplicate' : 'queued', id: message.id, conversation: message.conversation };
  }

  /**
   * Cancels before the append, so that the run that is being interrupted can't take the new message with it; but not for a
   * redelivery of the very message that is being answered, nor for one that will not get in.
   */
  async function interrupt({ conversation, id }: InboundMessage, maxWaiting: number): Promise<void> {
    if (await reader.status(conversation, id)) return;
    if (maxWaiting > 0 && (await reader.state(conversation)).pending >= maxWaiting) throw tooMany(maxWaiting);
    await control.cancel(conversation);
  }

  async function accept(account: string, incoming: ChannelMessage): Promise<Accepted> {
    if (options.draining())
      throw new AppError('draining', 'The server is shutting down.', { retryAfterMs: 5_000 });
    const settings = options.people(account);
    const { scope, context_messages } = settings.group;
    const conversation = conversationOf(account, incoming, scope);
    const room = conversationId(account, incoming.chat, scope === 'thread' ? incoming.thread : undefined);
    const verdict = await gate(account, incoming, conversation, settings);
    if (!verdict.pass) {
      if ('stranger' in verdict) {
        const reply = await greetStranger(people, account, conversation, incoming);
        if (reply !== undefined) return { status: 'command', conversation, reply };
      } else if (verdict.kept && context_messages > 0) {
        await notes.add(room, toNote(incoming, clock.now()), context_messages);
      }
      return { status: 'ignored', reason: verdict.reason };
    }

    const said = { ...incoming, sender: named(incoming.sender), text: verdict.text };
    const command = parseCommand(said.text);
    if (command) return once(account, conversation, said, command, settings);
    const kept = incoming.group && context_messages > 0 ? await notes.list(room) : [];
    const message = toInbound(account, conversation, quoting(said), options.settings(), clock);
    const accepted = await append(kept.length > 0 ? { ...message, notes: kept } : message);
    // After the append: a crash in between tells the model twice, which is better than never.
    if (kept.length > 0 && accepted.status === 'queued') await forget(room, kept);
    return accepted;
  }

  async function forget(room: string, kept: Note[]): Promise<void> {
    const ids = kept.map(({ id }) => id);
    await notes.remove(room, ids).catch((error: unknown) => {
      log.warn({ error }, 'context notes could not be removed; the model is told them once more');
    });
  }

  /** A command is carried out once for each message, however often the platform delivers it. */
  async function once(
    account: string,
    conversation: string,
    incoming: ChannelMessage,
    command: Command,
    settings: PeopleSettings,
  ): Promise<Accepted> {
    const key = `command ${conversation} ${incoming.id}`;
    const atWork = commanding.get(key);
    if (atWork) return repeated(await atWork);
    const known = await index.find(account, key);
    if (known) return { status: 'command', conversation, reply: known.fingerprint, repeated: true };
    // Looked up again: another delivery may have begun while this one asked the storage.
    const begun = commanding.get(key);
    if (begun) return repeated(await begun);
    const work = carryOut(account, conversation, incoming, command, settings, key).finally(() =>
      commanding.delete(key),
    );
    commanding.set(key, work);
    return work;
  }

  async function carryOut(
    account: string,
    conversation: string,
    incoming: ChannelMessage,
    command: Command,
    settings: PeopleSettings,
    key: string,
  ): Promise<Accepted> {
    const message = toInbound(account, conversation, incoming, options.settings(), clock);
    // Of /retry, which became a message: its redelivery asks nothing new.
    if (command.name === 'retry' && (await reader.status(conversation, message.id))) return append(message);
    const result = await options.command({
      ...command,
      account,
      conversation,
      text: incoming.text,
      sender: incoming.sender.id,
      admin: isAdmin(settings, incoming.sender.id),
      shared: incoming.group === true && settings.group.scope !== 'sender',
    });
    if ('ask' in result) {
      const { attachments: _attachments, ...rest } = message;
      return append({ ...rest, ...result.ask });
    }
    await index.remember(account, key, { conversation, fingerprint: result.reply });
    return { status: 'command', conversation, reply: result.reply };
  }

  return async (account, incoming) => {
    try {
      const accepted = await accept(account, incoming);
      count(account, accepted.status);
      return accepted;
    } catch (error) {
      count(account, error instanceof AppError && REFUSALS.has(error.code) ? 'refused' : 'failed');
      throw error;
    }
  };
}

const tooMany = (maxWaiting: number): AppError =>
  new AppError('conversation_full', `${maxWaiting} messages of this conversation wait to be answered.`, {
    retryAfterMs: FULL_RETRY_MS,
  });

/** After the gate and the commands, which look at how a message begins. */
function quoting({ quote = '', text, ...message }: ChannelMessage): ChannelMessage {
  return { ...message, text: [quote, text].filter((part) => part !== '').join('\n\n') };
}

const MAX_NAME_CHARS = 64;
/** White space, control characters, and those that turn the direction of writing or can't be seen. */
const UNSEEN = /[\s\p{Cc}\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069]+/gu;

/** People choose their names: one that spans lines would look like somebody else's words to the model. */
function named({ name, ...sender }: Sender): Sender {
  const shown = name?.replaceAll(UNSEEN, ' ').trim().slice(0, MAX_NAME_CHARS).toWellFormed();
  return { ...sender, ...(shown ? { name: shown } : {}) };
}

function repeated(accepted: Accepted): Accepted {
  if (accepted.status === 'command') return { ...accepted, repeated: true };
  return accepted.status === 'queued' ? { ...accepted, status: 'duplicate' } : accepted;
}

function toInbound(
  account: string,
  conversation: string,
  incoming: ChannelMessage,
  settings: AgentSettings,
  clock: Clock,
): InboundMessage {
  const { id, sender, text, attachments, group, replyTo, at } = incoming;
  return {
    id,
    conversation,
    account,
    at: at ?? clock.now(),
    sender,
    text,
    busy: group ? settings.on_busy.group : settings.on_busy.direct,
    ...(attachments?.length ? { attachments } : {}),
    ...(group ? { group } : {}),
    ...(replyTo ? { replyTo } : {}),
  };
}

function toNote({ id, at, sender, text, attachments = [] }: ChannelMessage, now: number): Note {
  const files = attachments.map(({ type, name }) => `[${name === undefined ? type : `${type}: ${name}`}]`);
  const whole = [text, ...files].filter((part) => part !== '').join(' ');
  return { id, at: at ?? now, sender: named(sender), text: whole.slice(0, MAX_NOTE_CHARS).toWellFormed() };
}
