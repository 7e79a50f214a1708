// Carries out what the server wants sent, one after the other: WeChat takes too much at once for a machine.
import { FileBox } from 'file-box';
import type { WechatyImpl } from 'wechaty/impls';
import type { Outcome, Send } from '../ipc.ts';
import { findChat, type Chat } from './targets.ts';

type Bot = InstanceType<typeof WechatyImpl>;

/** A puppet that says nothing for so long has failed. */
const PATIENCE_MS = 120_000;

export interface Sender {
  /** Never rejects. */
  send(request: Send): Promise<Outcome>;
  /** Resolves when what was begun is over. */
  idle(): Promise<unknown>;
}

/** `self`: our own id; undefined while nobody is logged in. */
export function createSender(bot: Bot, self: () => string | undefined): Sender {
  let last: Promise<unknown> = Promise.resolve();

  async function attempt({ to, content }: Send): Promise<Outcome> {
    const own = self();
    if (own === undefined) return LOGGED_OUT;
    try {
      const chat = await findChat(bot, own, to);
      if (!chat)
        return { outcome: 'gone', reason: 'nobody, or not for certain, is known under that id or name' };
      await inTime(say(bot, chat, content));
      return { outcome: 'sent', reason: '' };
    } catch (error) {
      // Nothing is tried any more once nobody is logged in, so it has not arrived.
      if (self() === undefined) return LOGGED_OUT;
      return { outcome: 'refused', reason: error instanceof Error ? error.message.slice(0, 500) : 'unknown' };
    }
  }

  return {
    send(request) {
      const sent = last.then(() => attempt(request));
      last = sent;
      return sent;
    },
    idle: () => last,
  };
}

const LOGGED_OUT: Outcome = { outcome: 'logged_out', reason: 'nobody is logged in' };

async function say(bot: Bot, chat: Chat, content: Send['content']): Promise<void> {
  const { room, contact } = { room: undefined, contact: undefined, ...chat };
  if ('file' in content) {
    const { name, bytes } = content.file;
    const box = FileBox.fromBase64(Buffer.from(bytes).toString('base64'), name);
    await (room ?? contact)?.say(box);
    return;
  }
  const { text, mention } = content;
  if (!room || !mention) {
    await (room ?? contact)?.say(text);
    return;
  }
  const talker = await bot.Contact.find({ id: mention.id });
  // Somebody who has left, or has another id by now, is still named.
  await (talker ? room.say(text, talker) : room.say(`@${mention.name}\u2005${text}`));
}

async function inTime(work: Promise<void>): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error('the puppet did not answer')), PATIENCE_MS);
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
