// Delivery → the body of a callback: the JSON that the status route shows, and the ids of all messages it answers.
import type { Delivery, Reply } from '../../src/domain/delivery.ts';

export interface CallbackBody {
  /** The message that asked for this callback; the newest, if several did. */
  id: string;
  conversation: string;
  status: 'done' | 'failed';
  reply: Reply;
  /** All messages that this reply answers, oldest first. */
  messages: string[];
  run: string;
}

export interface CallbackAddress {
  callback_url: string;
  id: string;
}

/** Undefined if the address isn't one of ours. */
export function addressOf({ address, messages }: Delivery): CallbackAddress | undefined {
  const { callback_url, id } = address;
  if (typeof callback_url !== 'string') return undefined;
  return { callback_url, id: typeof id === 'string' ? id : (messages.at(-1) ?? '') };
}

export function callbackBody(delivery: Delivery, id: string): CallbackBody {
  const { conversation, status, reply, messages, run } = delivery;
  return { id, conversation, status, reply, messages, run };
}
