// A program's message on its way to accept(): the same id brings the same answer and never a second run.
import type { Accept, Accepted, ChannelMessage } from '../ports/channel.ts';
import type { MessageIndex } from '../ports/message-index.ts';
import { AppError } from '../domain/errors.ts';

export type Intake = (account: string, message: ChannelMessage, fingerprint: string) => Promise<Accepted>;

export interface IntakeOptions {
  index: MessageIndex;
  accept: Accept;
  /** Whose conversation a message belongs to. */
  conversationOf: (account: string, message: ChannelMessage) => string;
}

/** Rejects as accept() does, and with idempotency_mismatch. */
export function createIntake({ index, accept, conversationOf }: IntakeOptions): Intake {
  return async (account, message, fingerprint) => {
    const conversation = conversationOf(account, message);
    // Before the append: of two requests with one id and different bodies, only one may get through.
    const known = await index.remember(account, message.id, { conversation, fingerprint });
    if (known && known.fingerprint !== fingerprint) {
      throw new AppError('idempotency_mismatch', `The id "${message.id}" was used with another body.`);
    }
    // A known id is accepted again: the request that brought it first may have died before its append.
    return accept(account, message);
  };
}
