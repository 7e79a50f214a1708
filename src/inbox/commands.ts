// Commands: a whole message that begins with a slash. They work on every channel and never wait in the lane. Those that
// change things for others need an administrator.
import { dayOf, spendingOf } from '../domain/day.ts';
import type { Attachment, InboundMessage } from '../domain/inbound.ts';
import { textOf } from '../domain/messages.ts';
import { languageOf, sentence, type Language } from '../domain/sentences.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { ConversationReader } from '../ports/reader.ts';
import type { Storage } from '../ports/storage.ts';
import { createApproval } from './pairing.ts';

const COMMANDS = ['help', 'new', 'stop', 'status', 'compact', 'usage', 'model', 'retry', 'approve'] as const;
type CommandName = (typeof COMMANDS)[number];
const WITH_ARGUMENT: ReadonlySet<CommandName> = new Set(['model', 'approve']);

export interface Command {
  name: CommandName;
  argument?: string;
}

/** `/new` is a command, "/new york" is a question. */
export function parseCommand(text: string): Command | undefined {
  const [, word, argument] = /^\s*[/／]([a-z]+)(?:\s+(\S+))?\s*$/iu.exec(text) ?? [];
  const name = COMMANDS.find((command) => command === word?.toLowerCase());
  if (name === undefined) return undefined;
  if (argument === undefined) return { name };
  return WITH_ARGUMENT.has(name) ? { name, argument } : undefined;
}

export interface CommandCall extends Command {
  account: string;
  conversation: string;
  /** The message, for its language. */
  text: string;
  /** Who sent it, for the record. */
  sender: string;
  admin: boolean;
  /** The conversation is other people's as well. */
  shared: boolean;
}

/** An answer, or what is to be asked again. */
export type CommandResult =
  | { reply: string }
  | { ask: Pick<InboundMessage, 'text' | 'attachments' | 'notes'> };

export type RunCommand = (call: CommandCall) => Promise<CommandResult>;

export interface CommandOptions {
  storage: Pick<
    Storage,
    'store' | 'reader' | 'control' | 'people' | 'outbox' | 'deliveries' | 'preferences' | 'spending'
  >;
  /** Names of the entries, the default one first. */
  models: readonly string[];
  /** Where a day begins at midnight. */
  timeZone: () => string;
  clock: Pick<Clock, 'now'>;
  log: Logger;
}

type Act = (call: CommandCall, lang: Language) => Promise<string | CommandResult>;

export function createCommands({ storage, models, timeZone, clock, log }: CommandOptions): RunCommand {
  const { store, reader, control, people, preferences, spending } = storage;
  const approve = createApproval({ storage, clock, log });
  const names = models.join(', ');
  const standard = models[0] ?? 'default';

  const acts: Record<CommandName, Act> = {
    help: async (_call, lang) => sentence('help', lang),

    async new({ conversation }, lang) {
      await store.reset(conversation);
      return sentence('reset_done', lang);
    },

    async stop({ conversation }, lang) {
      return sentence((await control.cancel(conversation)) ? 'stopping' : 'nothing_to_stop', lang);
    },

    async status({ conversation }, lang) {
      const { run, pending, length } = await reader.state(conversation);
      return sentence(run ? 'status_running' : 'status_idle', lang, { pending, messages: length });
    },

    async compact({ conversation }, lang) {
      const { items } = await reader.history(conversation, { limit: 1 });
      const newest = items.at(-1);
      if (!newest) return sentence('nothing_to_compact', lang);
      await preferences.set(conversation, { compact: newest.run });
      return sentence('compacting', lang);
    },

    async usage({ conversation }, lang) {
      const [{ usage }, today] = await Promise.all([
        reader.state(conversation),
        spending.of(dayOf(clock.now(), timeZone()), spendingOf(conversation)),
      ]);
      const { input, output, cached } = usage;
      const counts = { input_today: today.input, output_today: today.output, cached_today: today.cached };
      return sentence('usage', lang, { input, output, cached, ...counts });
    },

    async model({ conversation, argument }, lang) {
      if (argument === undefined) {
        const { model = standard } = await preferences.get(conversation);
        return sentence('models', lang, { model, models: names });
      }
      const model = argument === 'default' ? standard : argument;
      if (!models.includes(model)) return sentence('no_such_model', lang, { model, models: names });
      await preferences.set(conversation, { model: argument === 'default' ? null : model });
      return sentence('model_chosen', lang, { model });
    },

    async retry({ conversation }, lang) {
      const last = await lastAsked(reader, conversation);
      return last ? { ask: last } : sentence('nothing_to_retry', lang);
    },

    async approve({ account, argument = '', sender }, lang) {
      const code = argument.toUpperCase();
      // Administrators of one account let nobody into another.
      const theirs = (await people.list()).some((known) => known.code === code && known.account === account);
      const pairing = theirs ? await approve(code, `${account}:${sender}`) : undefined;
      if (!pairing) return sentence('no_such_code', lang);
      return sentence('approved', lang, { person: pairing.name ?? pairing.person });
    },
  };

  return async (call) => {
    const lang = call.text.includes('／') ? 'zh' : await conversationLanguage(reader, call.conversation);
    const refused = refusal(call);
    if (refused) return { reply: sentence(refused, lang) };
    const result = await acts[call.name](call, lang);
    return typeof result === 'string' ? { reply: result } : result;
  };
}

function refusal({ name, argument, admin, shared }: CommandCall): 'not_allowed' | 'admins_only' | undefined {
  if (admin) return undefined;
  if (name === 'approve') return 'not_allowed';
  const changes = name === 'new' || name === 'compact' || (name === 'model' && argument !== undefined);
  return shared && changes ? 'admins_only' : undefined;
}

/** The newest message that people sent, as it was. */
async function lastAsked(
  reader: ConversationReader,
  conversation: string,
): Promise<Pick<InboundMessage, 'text' | 'attachments' | 'notes'> | undefined> {
  let cursor: string | undefined;
  do {
    const page = await reader.history(conversation, {
      limit: 50,
      ...(cursor === undefined ? {} : { cursor }),
    });
    const entry = page.items.findLast(({ role, id }) => role === 'user' && id !== undefined);
    if (entry) {
      const attachments = entry.content.flatMap((block): Attachment[] => {
        if (block.type === 'image' && block.ref !== undefined)
          return [{ type: 'image', ref: block.ref, media_type: block.media_type }];
        if (block.type !== 'file') return [];
        const { ref, media_type, name, size } = block;
        return [{ type: 'file', ref, media_type, name, ...(size === undefined ? {} : { size }) }];
      });
      return {
        text: textOf(entry.content),
        ...(attachments.length > 0 ? { attachments } : {}),
        ...(entry.notes ? { notes: entry.notes } : {}),
      };
    }
    ({ cursor } = page);
  } while (cursor !== undefined);
  return undefined;
}

/** The language of the newest thing that was said in the conversation. */
async function conversationLanguage(reader: ConversationReader, conversation: string): Promise<Language> {
  const { items } = await reader.history(conversation, { limit: 4 });
  for (const entry of items.toReversed()) {
    const block = entry.content.find((candidate) => candidate.type === 'text');
    if (block) return languageOf(block.text);
  }
  return 'zh';
}
