// accept: the way in, the same for every channel. Gate, commands, append (durable), wake. The platform gets its
// acknowledgement only after this resolves.
import { conversationId } from '../domain/conversation.ts';
import { AppError } from '../domain/errors.ts';
import type { InboundMessage } from '../domain/inbound.ts';
import type { AgentSettings } from '../../config/schema.ts';
import type { Accept, Accepted, ChannelMessage } from '../ports/channel.ts';
import type { Clock } from '../ports/clock.ts';
import type { RunControl } from '../ports/control.ts';
import type { LaneQueue } from '../ports/lanes.ts';
import type { Logger } from '../ports/log.ts';
import type { ConversationReader } from '../ports/reader.ts';
import type { ConversationStore } from '../ports/store.ts';
import { parseCommand, type RunCommand } from './commands.ts';

export interface AcceptOptions {
  store: ConversationStore;
  reader: ConversationReader;
  control: RunControl;
  lanes: LaneQueue;
  /** Read for every message, so that a changed setting applies to the next one. */
  settings: () => AgentSettings;
  command: RunCommand;
  draining: () => boolean;
  clock: Clock;
  log: Logger;
  count: (account: string, result: string) => void;
}

export function createAccept(options: AcceptOptions): Accept {
  const { store, reader, control, lanes, clock, log, count } = options;

  async function append(message: InboundMessage): Promise<Accepted> {
    // Cancel before appending, so that the run that is being interrupted can't take the new message with it; but not
    // for a redelivery of the very message that is being answered.
    if (message.busy === 'interrupt' && !(await reader.status(message.conversation, message.id))) {
      await control.cancel(message.conversation);
    }
    const { duplicate } = await store.append(message);
    // A duplicate is woken as well: the first one's wake may have died with its process.
    await lanes.wake(message.conversation).catch((error: unknown) => {
      log.warn(
        { error, conversation: message.conversation },
        'wake failed; the sweep will pick the message up',
      );
    });
    return { status: duplicate ? 'duplicate' : 'queued', id: message.id, conversation: message.conversation };
  }

  async function accept(account: string, incoming: ChannelMessage): Promise<Accepted> {
    if (options.draining())
      throw new AppError('draining', 'The server is shutting down.', { retryAfterMs: 5_000 });
    if (incoming.group && !incoming.mentioned) return { status: 'ignored', reason: 'not mentioned' };
    const conversation = conversationId(account, incoming.chat, incoming.thread);
    const command = parseCommand(incoming.text);
    if (command) {
      return {
        status: 'command',
        conversation,
        reply: await options.command(command, conversation, incoming.text),
      };
    }
    return append(toInbound(account, conversation, incoming, options.settings(), clock));
  }

  return async (account, incoming) => {
    try {
      const accepted = await accept(account, incoming);
      count(account, accepted.status);
      return accepted;
    } catch (error) {
      count(account, 'failed');
      throw error;
    }
  };
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
