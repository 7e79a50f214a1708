// The embedded MessageIndex: from a client's message id to its conversation.
import type { IndexedMessage, MessageIndex } from '../../ports/message-index.ts';
import type { Database } from './database.ts';

export function createMessageIndex(db: Database): MessageIndex {
  const select = db.prepare<IndexedMessage>(
    'SELECT conversation, fingerprint FROM message_index WHERE account = ? AND id = ?',
  );
  const insert = db.prepare(
    'INSERT INTO message_index (account, id, at, conversation, fingerprint) VALUES (?, ?, ?, ?, ?)',
  );
  // A plain object: the rows that node:sqlite gives have no prototype.
  const known = (account: string, messageId: string): IndexedMessage | undefined => {
    const row = select.get(account, messageId);
    return row && { ...row };
  };

  return {
    remember(account, messageId, { conversation, fingerprint }) {
      // The append that follows is durable, and what was written before it is as well then.
      return db.write(
        () => {
          const before = known(account, messageId);
          if (before === undefined) insert.run(account, messageId, Date.now(), conversation, fingerprint);
          return before;
        },
        { durable: false },
      );
    },

    find(account, messageId) {
      return db.read(() => known(account, messageId));
    },
  };
}
