// A program's message on its way to accept(): the same id brings the same answer and never a second run.
import type { Accept, Accepted, ChannelMessage } from '../ports/channel.ts';
import type { MessageIndex } from '../ports/message-index.ts';
import { conversationId } from '../domain/conversation.ts';
import { AppError } from '../domain/errors.ts';

export type Intake = (account: string, message: ChannelMessage, fingerprint: string) => Promise<Accepted>;

/** Rejects as accept() does, and with idempotency_mismatch. */
export function createIntake({ index, accept }: { index: MessageIndex; accept: Accept }): Intake {
  return async (account, message, fingerprint) => {
    const conversation = conversationId(account, message.chat, message.thread);
    // Before the append: of two requests with one id and different bodies, only one may get through.
    const known = await index.remember(account, message.id, { conversation, fingerprint });
    if (known && known.fingerprint !== fingerprint) {
      throw new AppError('idempotency_mismatch', `The id "${message.id}" was used with another body.`);
    }
    if (known) {
      const answer = await index.find(account, commandKey(message.id));
      if (answer) return { status: 'command', conversation, reply: answer.fingerprint };
    }
    // A known id is accepted again: the request that brought it first may have died before its append.
    const accepted = await accept(account, message);
    if (accepted.status === 'command') {
      const entry = { conversation, fingerprint: accepted.reply };
      await index.remember(account, commandKey(message.id), entry);
    }
    return accepted;
  };
}

/** Commands leave no message behind: their answers are kept beside the ids. Ids from outside hold no space. */
const commandKey = (id: string): string => `command ${id}`;
