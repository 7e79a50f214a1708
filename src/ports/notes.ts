// ContextNotes: what was said in a group without asking the bot, until a message that does ask it takes it along. A few
// per chat, forgotten with the dedupe window. Rejects only when the storage fails.
import type { Note } from '../domain/inbound.ts';

export interface ContextNotes {
  /** Keeps the newest `keep` notes of the chat. Idempotent while the note is there. */
  add(chat: string, note: Note, keep: number): Promise<void>;
  /** Oldest first. */
  list(chat: string): Promise<Note[]>;
  /** Those that a message took along. Idempotent. */
  remove(chat: string, ids: readonly string[]): Promise<void>;
}
