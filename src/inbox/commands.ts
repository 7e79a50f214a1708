// Commands: /help /new /stop /status. They work on every channel and never wait in the lane.
import { languageOf, sentence } from '../domain/sentences.ts';
import type { RunControl } from '../ports/control.ts';
import type { ConversationReader } from '../ports/reader.ts';
import type { ConversationStore } from '../ports/store.ts';

const COMMANDS = ['help', 'new', 'stop', 'status'] as const;
export type Command = (typeof COMMANDS)[number];

/** Carries a command out; resolves with its answer. `text` is the message, for its language. */
export type RunCommand = (command: Command, conversation: string, text: string) => Promise<string>;

/** A command is a whole message: `/new` is one, "/new york" is a question. */
export function parseCommand(text: string): Command | undefined {
  const word = /^\s*[/／]([a-z]+)\s*$/iu.exec(text)?.[1]?.toLowerCase();
  return COMMANDS.find((command) => command === word);
}

export interface CommandOptions {
  store: ConversationStore;
  reader: ConversationReader;
  control: RunControl;
  /** The default language where the command's own text tells nothing. */
  language: (conversation: string) => Promise<'zh' | 'en'>;
}

export function createCommands({ store, reader, control, language }: CommandOptions): RunCommand {
  return async (command, conversation, text) => {
    const lang = text.includes('／') ? 'zh' : await language(conversation);
    switch (command) {
      case 'help':
        return sentence('help', lang);
      case 'new':
        await store.reset(conversation);
        return sentence('reset_done', lang);
      case 'stop':
        return sentence((await control.cancel(conversation)) ? 'stopping' : 'nothing_to_stop', lang);
      case 'status': {
        const state = await reader.state(conversation);
        return sentence(state.run ? 'status_running' : 'status_idle', lang, {
          pending: state.pending,
          messages: state.length,
        });
      }
    }
  };
}

/** The language of the newest thing that was said in the conversation. */
export async function conversationLanguage(
  reader: ConversationReader,
  conversation: string,
): Promise<'zh' | 'en'> {
  const { items } = await reader.history(conversation, { limit: 4 });
  for (const entry of items.toReversed()) {
    const block = entry.content.find((candidate) => candidate.type === 'text');
    if (block) return languageOf(block.text);
  }
  return 'zh';
}
