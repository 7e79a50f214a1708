// The two faces of a run's messages: `entries`, what the history will keep, and `view`, what the model sees, with roles
// alternating and with what is meant for the model only (the summary, hints, injected prompts). Both only grow at the end,
// so that a turn costs as much as it adds, and each request is a prefix of the next.
import type { Block, Message } from '../domain/messages.ts';
import { appendTo, repair, unusedId, type CallIds } from './pairing.ts';
import type { AgentEntry } from './types.ts';

export interface Transcript {
  /** Live: it grows between model calls. */
  view: readonly Message[];
  readonly entries: readonly AgentEntry[];
  /** Appends a new message to both; `forModel` is seen by the model after it, and not kept. */
  append(entry: AgentEntry, forModel?: Block[]): void;
  /** Shows the model a user message until the returned function is called; nothing may be appended in between. */
  inject(text: string): () => void;
  /** Replaces what the model sees, repaired. */
  show(messages: readonly Message[]): void;
  /** Replaces an entry's message (a result that had to be cut) without touching the view. */
  replace(index: number, message: Message): void;
  /** An id that no call of the context has. */
  callId(id: string): string;
}

export function createTranscript(): Transcript {
  const entries: AgentEntry[] = [];
  let ids: CallIds = new Map();
  let injected: { text: string; length: number; last: Message | undefined } | undefined;
  // Replaced by `show`. Not a getter: each object literal with one gets a hidden class of its own.
  let view: Message[] = [];

  function place(text: string): void {
    injected = { text, length: view.length, last: view.at(-1) };
    appendTo(view, { role: 'user', content: [{ type: 'text', text }] });
  }

  const transcript: Transcript = {
    view,
    entries,
    append(entry, forModel) {
      entries.push(entry);
      const { message } = entry;
      appendTo(view, forModel ? { role: message.role, content: [...message.content, ...forModel] } : message);
    },
    inject(text) {
      place(text);
      return () => {
        if (!injected) return;
        view.length = injected.length;
        if (injected.last) view[injected.length - 1] = injected.last;
        injected = undefined;
      };
    },
    show(messages) {
      ids = new Map();
      view = repair(messages, ids);
      transcript.view = view;
      if (injected) place(injected.text);
    },
    replace(index, message) {
      entries[index] = { ...entries[index]!, message };
    },
    callId: (id) => unusedId(id, ids),
  };
  return transcript;
}
