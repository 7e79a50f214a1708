// Delivery → the body of a callback: the JSON that the status route shows, and the ids of all messages it answers.
import type { Delivery, Reply } from '../../src/domain/delivery.ts';
import type { Attachment } from '../../src/domain/inbound.ts';

/** A file as a program sees it. */
export interface FileBody {
  type: Attachment['type'];
  name: string;
  media_type?: string;
  /** Bytes. */
  size?: number;
  /** With the account's credentials. Relative to the server's address if `server.public_url` isn't set. */
  url: string;
}

export interface ReplyBody {
  text: string;
  attachments?: FileBody[];
}

/** Whose file it is, and by which address the server is reached. */
export interface FilePlace {
  account: string;
  /** Empty: not known. */
  publicUrl: string;
}

export function replyBody({ text, attachments }: Reply, place: FilePlace): ReplyBody {
  return attachments?.length ? { text, attachments: fileBodies(attachments, place) } : { text };
}

export function fileBodies(files: readonly Attachment[], { account, publicUrl }: FilePlace): FileBody[] {
  return files.map(({ type, ref, name, media_type, size }) => {
    const called = name ?? `${type}${/\.[a-z0-9]+$/.exec(ref)?.[0] ?? ''}`;
    const path = `/webhook/${account}/media/${ref.slice('media:'.length)}?name=${encodeURIComponent(called)}`;
    return {
      type,
      name: called,
      ...(media_type === undefined ? {} : { media_type }),
      ...(size === undefined ? {} : { size }),
      url: ref.startsWith('media:') ? `${publicUrl.replace(/\/+$/, '')}${path}` : ref,
    };
  });
}

export interface CallbackBody {
  /** The message that asked for this callback; the newest, if several did. */
  id: string;
  conversation: string;
  status: 'done' | 'failed';
  reply: ReplyBody;
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

export function callbackBody(delivery: Delivery, id: string, publicUrl: string): CallbackBody {
  const { account, conversation, status, messages, run } = delivery;
  const reply = replyBody(delivery.reply, { account, publicUrl });
  return { id, conversation, status, reply, messages, run };
}
