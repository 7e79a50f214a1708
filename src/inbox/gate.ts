// The gate: is a message for the bot at all? Whose, from where, and does it ask? The same on every channel; settings are
// the account's own (config/people-schema.ts).
import type { PeopleSettings } from '../../config/schema.ts';
import type { ChannelMessage } from '../ports/channel.ts';
import type { People } from '../ports/people.ts';
import type { ConversationReader } from '../ports/reader.ts';

export type Verdict =
  /** `text` is what was said to the bot: without the prefix. */
  | { pass: true; text: string }
  /** `kept`: said in a group where the bot listens, without asking it. */
  | { pass: false; reason: string; kept?: boolean }
  /** An unknown person wrote directly to an account that pairs. */
  | { pass: false; reason: 'unknown person'; stranger: true };

export interface GateOptions {
  people: People;
  reader: ConversationReader;
  /** The id belongs to an account of this server, on the same platform as `account`. */
  isOurs: (account: string, sender: string) => boolean;
}

/** Judges a message that would belong to `conversation`. */
export type Gate = (
  account: string,
  incoming: ChannelMessage,
  conversation: string,
  settings: PeopleSettings,
) => Promise<Verdict>;

/** History entries in which the newest exchange is looked for. */
const MAX_ENTRIES = 200;

export function createGate({ people, reader, isOurs }: GateOptions): Gate {
  /** Messages of other bots that were answered, or wait, since a person last asked something. */
  async function botTurns(conversation: string): Promise<number> {
    const [{ items }, { pending }] = await Promise.all([
      reader.history(conversation, { limit: MAX_ENTRIES }),
      reader.state(conversation),
    ]);
    const said = items.filter((entry) => entry.role === 'user' && entry.id !== undefined);
    const person = said.findLastIndex(({ sender }) => sender?.bot !== true);
    return said.length - 1 - person + pending;
  }

  return async (account, incoming, conversation, settings) => {
    const { sender, chat, group } = incoming;
    const { access } = settings;
    if (isOurs(account, sender.id)) return { pass: false, reason: 'from an account of this server' };
    if (access.deny.includes(sender.id)) return { pass: false, reason: 'the sender is denied' };
    if (group) {
      const allowed = access.allow_groups.length === 0 || access.allow_groups.includes(chat);
      if (!allowed || access.deny_groups.includes(chat))
        return { pass: false, reason: 'the group is not allowed' };
    } else if (access.direct !== 'open' && !isKnown(settings, sender.id)) {
      if (access.direct === 'allowlist') return { pass: false, reason: 'the sender is not allowed' };
      if (!(await people.approved(account, sender.id)))
        return { pass: false, reason: 'unknown person', stranger: true };
    }

    const text = asked(incoming, settings);
    if (text === undefined) return { pass: false, reason: 'not mentioned', kept: true };
    const { max_bot_turns } = settings.group;
    if (sender.bot && (await botTurns(conversation)) >= max_bot_turns)
      return { pass: false, reason: 'too many turns with other bots' };
    return { pass: true, text };
  };
}

export const isAdmin = (settings: PeopleSettings, sender: string): boolean =>
  settings.admins.includes(sender);

const isKnown = (settings: PeopleSettings, sender: string): boolean =>
  settings.access.allow.includes(sender) || isAdmin(settings, sender);

/** What the bot was asked; undefined if it wasn't. */
function asked(
  { group, mentioned, text }: ChannelMessage,
  { group: rules }: PeopleSettings,
): string | undefined {
  if (!group) return text;
  const { trigger, prefix } = rules;
  if (trigger === 'prefix' && prefix !== '' && text.trimStart().startsWith(prefix))
    return text.trimStart().slice(prefix.length).trimStart();
  return mentioned || trigger === 'always' ? text : undefined;
}
