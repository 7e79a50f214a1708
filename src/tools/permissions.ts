// Who may use which tool: `tools.rules`, asked before each call. The first rule that fits decides; without one, a tool
// that is on is for everyone. What is in a chat is untrusted, so the answer depends on who wrote, never on what was written.
import type { ToolRule } from '../../config/schema.ts';
import { accountOf } from '../domain/conversation.ts';
import type { Sender } from '../domain/inbound.ts';
import { matcher, type Matcher } from './pattern.ts';

/** For whom a run works. */
export interface ToolUser {
  conversation: string;
  /** Everybody whose messages the run has taken: a call must be allowed to each of them. */
  people: readonly Sender[];
}

/** A tool as rules may name it: as it is offered, and as its source calls it, prefixed by the source. */
export type ToolNames = readonly string[];

/** The account's own list says so: an id is only worth something together with the account that vouches for it. */
export type IsAdmin = (account: string, sender: string) => boolean;

export interface Permissions {
  /** Why the call is refused, for the model to explain; undefined: it may be made. */
  refusal(names: ToolNames, user: ToolUser): string | undefined;
  /** For whom the tool is, in words: the rules that can decide about it, in order. */
  describe(names: ToolNames): string[];
}

interface Rule {
  /** Empty: it fits everybody everywhere. */
  condition: string;
  allow: boolean;
  tools: Matcher;
  fits(conversation: string, sender: string): boolean;
}

const everything: Matcher = () => true;
const orEverything = (patterns: readonly string[] | undefined): Matcher =>
  patterns ? matcher(patterns) : everything;

/** Made anew when the rules are others. */
export function createCurrentPermissions(
  rules: () => readonly ToolRule[],
  isAdmin: IsAdmin,
): () => Permissions {
  let made: { from: readonly ToolRule[]; permissions: Permissions } | undefined;
  return () => {
    const now = rules();
    if (made?.from !== now) made = { from: now, permissions: createPermissions(now, isAdmin) };
    return made.permissions;
  };
}

export function createPermissions(settings: readonly ToolRule[], isAdmin: IsAdmin): Permissions {
  const rules = settings.map((rule) => compile(rule, isAdmin));
  const about = (names: ToolNames) => rules.filter((rule) => names.some(rule.tools));

  return {
    refusal(names, { conversation, people }) {
      const candidates = about(names);
      const refused = people.some(
        ({ id }) => candidates.find((rule) => rule.fits(conversation, id))?.allow === false,
      );
      if (!refused) return undefined;
      return `The tool ${names[0] ?? ''} is not allowed here by the operator's rules (for this person, chat or channel). Don't try it again; say so, and help without it.`;
    },
    describe(names) {
      const candidates = about(names);
      const last = candidates.findIndex(({ condition }) => condition === '');
      const told = (last === -1 ? candidates : candidates.slice(0, last + 1)).map(inWords);
      if (last !== -1) return told;
      return [...told, told.length === 0 ? 'allowed for everyone' : 'allowed for everyone else'];
    },
  };
}

function inWords({ condition, allow }: Rule, index: number): string {
  const whom = condition !== '' ? condition : index === 0 ? 'everyone' : 'everyone else';
  return `${allow ? 'allowed' : 'refused'} for ${whom}`;
}

function compile(rule: ToolRule, isAdmin: IsAdmin): Rule {
  const accounts = orEverything(rule.accounts);
  const people = orEverything(rule.people);
  const chats = orEverything(rule.chats);
  const condition = (['accounts', 'chats', 'people', 'roles'] as const)
    .flatMap((field) => (rule[field] ? [`${field} ${rule[field].join(', ')}`] : []))
    .join('; ');
  return {
    condition,
    allow: rule.allow,
    tools: orEverything(rule.tools),
    fits(conversation, sender) {
      const account = accountOf(conversation);
      return (
        accounts(account) &&
        people(`${account}:${sender}`) &&
        (!rule.roles || rule.roles.includes(isAdmin(account, sender) ? 'admin' : 'member')) &&
        prefixes(conversation.slice(account.length + 1)).some(chats)
      );
    },
  };
}

/** A chat's id may be followed by a thread or a sender, and may hold colons itself. */
function prefixes(chat: string): string[] {
  const parts = chat.split(':');
  return parts.map((_part, n) => parts.slice(0, n + 1).join(':'));
}
