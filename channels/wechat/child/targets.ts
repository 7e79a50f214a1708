// Whom an answer goes to. Some puppets (those of the web protocol) give everybody new ids at each login: then the chat is looked
// for by the name it had, and taken only if exactly one has it.
import type { ContactInterface, RoomInterface, WechatyImpl } from 'wechaty/impls';
import type { Target } from '../ipc.ts';

type Bot = InstanceType<typeof WechatyImpl>;
export type Chat = { contact: ContactInterface } | { room: RoomInterface };

/** Ids of a login begin like this; lasting ones don't. */
const isOfLogin = (id: string): boolean => id.startsWith('@');

/** Undefined: nobody, or not for certain. Rejects if the puppet fails. */
export async function findChat(bot: Bot, self: string, to: Target): Promise<Chat | undefined> {
  const sameLogin = to.self === self || !isOfLogin(to.chat);
  if (to.group) {
    const known = sameLogin ? await bot.Room.find({ id: to.chat }) : undefined;
    const room = known ?? only(to.name === '' ? [] : await bot.Room.findAll({ topic: to.name }));
    return room && { room };
  }
  const known = sameLogin ? await bot.Contact.find({ id: to.chat }) : undefined;
  const contact = known ?? only(await namesakes(bot, to));
  return contact && { contact };
}

/** Friends with the same name and the same remark of ours. */
async function namesakes(bot: Bot, { name, alias = '' }: Target): Promise<ContactInterface[]> {
  if (name === '') return [];
  const found = await bot.Contact.findAll({ name });
  const friends = found.filter((contact) => contact.friend() !== false);
  const aliases = await Promise.all(friends.map((contact) => contact.alias()));
  return friends.filter((_, at) => (aliases[at] ?? '') === alias);
}

const only = <T>(found: readonly T[]): T | undefined => (found.length === 1 ? found[0] : undefined);
