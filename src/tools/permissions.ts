// Who may use which tool: `tools.rules`, asked before each call. The first rule that fits decides; without one, a tool
// that is on is for everyone. What is in a chat is untrusted, so the answer depends on who wrote, never on what was written.
import type { ToolRule, ToolSettings } from '../../config/schema.ts';
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

export interface Permissions {
  /** Why the call is refused, for the model to explain; undefined: it may be made. */
  refusal(names: ToolNames, user: ToolUser): string | undefined;
  /** For whom the tool is, in words. */
  describe(names: ToolNames): string[];
}

interface Rule {
  text: string;
  allow: boolean;
  tools: Matcher;
  fits(conversation: string, person: string, admin: boolean): boolean;
}

const everything: Matcher = () => true;
const orEverything = (patterns: readonly string[] | undefined): Matcher =>
  patterns ? matcher(patterns) : everything;

export type RuleSettings = Pick<ToolSettings, 'rules' | 'admins'>;

/** Made anew when the settings are others. */
export function createCurrentPermissions(settings: () => RuleSettings): () => Permissions {
  let made: { from: RuleSettings; permissions: Permissions } | undefined;
  return () => {
    const now = settings();
    if (made?.from.rules !== now.rules || made.from.admins !== now.admins)
      made = { from: now, permissions: createPermissions(now) };
    return made.permissions;
  };
}

export function createPermissions(settings: RuleSettings): Permissions {
  const rules = settings.rules.map(compile);
  const isAdmin = matcher(settings.admins);

  function ruleFor(names: ToolNames, conversation: string, person: string): Rule | undefined {
    const admin = isAdmin(person);
    return rules.find((rule) => names.some(rule.tools) && rule.fits(conversation, person, admin));
  }

  return {
    refusal(names, { conversation, people }) {
      const account = accountOf(conversation);
      const refused = people.some(
        ({ id }) => ruleFor(names, conversation, `${account}:${id}`)?.allow === false,
      );
      if (!refused) return undefined;
      return `The tool ${names[0] ?? ''} is not allowed here by the operator's rules (for this person, chat or channel). Don't try it again; say so, and help without it.`;
    },
    describe(names) {
      const fitting = rules.filter((rule) => names.some(rule.tools)).map(({ text }) => text);
      const last = rules.findLast((rule) => names.some(rule.tools));
      return last?.text.includes(' for ') === false ? fitting : [...fitting, 'allowed for everyone'];
    },
  };
}

function compile(rule: ToolRule): Rule {
  const accounts = orEverything(rule.accounts);
  const people = orEverything(rule.people);
  const chats = orEverything(rule.chats);
  const conditions = (['accounts', 'chats', 'people', 'roles'] as const).flatMap((field) =>
    rule[field] ? [`${field} ${rule[field].join(', ')}`] : [],
  );
  const verdict = rule.allow ? 'allowed' : 'refused';
  return {
    text: conditions.length > 0 ? `${verdict} for ${conditions.join('; ')}` : verdict,
    allow: rule.allow,
    tools: orEverything(rule.tools),
    fits(conversation, person, admin) {
      const account = accountOf(conversation);
      return (
        accounts(account) &&
        people(person) &&
        (!rule.roles || rule.roles.includes(admin ? 'admin' : 'member')) &&
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
