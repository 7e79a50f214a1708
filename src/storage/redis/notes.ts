// ContextNotes on Redis: one short list a chat, gone with the dedupe window.
import type { Note } from '../../domain/inbound.ts';
import type { ContextNotes } from '../../ports/notes.ts';
import { conversationKeys, nameOf } from './keys.ts';
import { entryOf, valueOf, type RedisContext } from './operations.ts';

export function createNotes(
  { operate, connections }: RedisContext,
  { dedupeMs }: { dedupeMs: number },
): ContextNotes {
  return {
    async add(chat, note, keep) {
      const name = nameOf(note.id);
      const { notes } = conversationKeys(chat);
      await operate('notes-add', [notes], [name, entryOf(name, note), keep, dedupeMs]);
    },

    async list(chat) {
      const { notes } = conversationKeys(chat);
      const entries = await connections.call((client) => client.lrange(notes, 0, -1));
      return entries.map((entry) => valueOf(entry) as Note);
    },

    async remove(chat, ids) {
      if (ids.length > 0) await operate('notes-remove', [conversationKeys(chat).notes], ids.map(nameOf));
    },
  };
}
