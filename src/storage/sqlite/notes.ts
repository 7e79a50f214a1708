// The embedded ContextNotes; maintenance.ts forgets the old ones.
import type { Note } from '../../domain/inbound.ts';
import type { ContextNotes } from '../../ports/notes.ts';
import type { Database } from './database.ts';

export function createNotes(db: Database): ContextNotes {
  const insert = db.prepare(
    'INSERT INTO notes (chat, id, at, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const trim = db.prepare(
    `DELETE FROM notes WHERE chat = ?1 AND seq NOT IN
       (SELECT seq FROM notes WHERE chat = ?1 ORDER BY seq DESC LIMIT ?2)`,
  );
  const select = db.prepare<{ body: string }>('SELECT body FROM notes WHERE chat = ? ORDER BY seq');
  const remove = db.prepare('DELETE FROM notes WHERE chat = ? AND id = ?');

  return {
    async add(chat, note, keep) {
      await db.write(() => {
        insert.run(chat, note.id, Date.now(), JSON.stringify(note));
        trim.run(chat, keep);
      });
    },

    list(chat) {
      return db.read(() => select.all(chat).map(({ body }) => JSON.parse(body) as Note));
    },

    async remove(chat, ids) {
      await db.write(
        () => {
          for (const id of ids) remove.run(chat, id);
        },
        { durable: false },
      );
    },
  };
}
