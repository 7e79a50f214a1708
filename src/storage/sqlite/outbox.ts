// The embedded Outbox. The oldest delivery of a conversation that is not parked is its head; only the head is lent.
import type { Delivery, DeliveryRecord, DeliveryState } from '../../domain/delivery.ts';
import type { DeliveryLease, Outbox } from '../../ports/outbox.ts';
import type { Conversations } from './conversations.ts';
import type { Database } from './database.ts';

interface OutboxRow {
  seq: number;
  conversation: number;
  id: string;
  body: string;
  attempts: number;
  error: string | null;
  epoch: number;
  not_before: number;
  holder: number;
  lease_until: number;
}

function recordOf({ body, attempts, error }: OutboxRow, state: DeliveryState): DeliveryRecord {
  const delivery = JSON.parse(body) as Delivery;
  return { ...delivery, state, attempts, ...(error !== null && { error }) };
}

export function createOutbox(db: Database, { ensure, heldForMs, leaseFor }: Conversations): Outbox {
  const selectHead = db.prepare<OutboxRow>(
    `SELECT outbox.* FROM conversations CROSS JOIN outbox ON outbox.parked = 0 AND outbox.conversation = conversations.key
       WHERE conversations.id = ? ORDER BY outbox.seq LIMIT 1`,
  );
  const more = db.prepare<{ seq: number }>(
    'SELECT seq FROM outbox WHERE parked = 0 AND conversation = ? LIMIT 1',
  );
  const lend = db.prepare(
    'UPDATE outbox SET attempts = attempts + 1, epoch = epoch + 1, not_before = 0, holder = ?, lease_until = ? WHERE seq = ?',
  );
  const remove = db.prepare('DELETE FROM outbox WHERE seq = ?');
  // The epoch rises with whatever ends a lease, so that it is stale at once.
  const putOff = db.prepare(
    'UPDATE outbox SET holder = ?, not_before = ?, error = ?, epoch = epoch + 1, lease_until = 0 WHERE seq = ?',
  );
  const uncount = db.prepare('UPDATE outbox SET attempts = attempts - 1 WHERE seq = ?');
  const putAside = db.prepare(
    'UPDATE outbox SET parked = 1, error = ?, epoch = epoch + 1, holder = 0, lease_until = 0 WHERE seq = ?',
  );
  const selectParked = db.prepare<OutboxRow>('SELECT * FROM outbox WHERE parked = 1 AND id = ? LIMIT 1');
  const requeue = db.prepare('INSERT INTO outbox (conversation, id, body, epoch) VALUES (?, ?, ?, ?)');
  const page = db.prepare<OutboxRow>(
    'SELECT * FROM outbox WHERE parked = ? AND seq > ? ORDER BY seq LIMIT ?',
  );

  const held = (lease: DeliveryLease): OutboxRow | undefined => {
    const head = selectHead.get(lease.conversation);
    return head !== undefined && head.id === lease.deliveryId && head.epoch === lease.epoch
      ? head
      : undefined;
  };
  const hasMore = (row: OutboxRow) => ({ more: more.get(row.conversation) !== undefined });

  return {
    claim(conversation, leaseMs) {
      return db.write(() => {
        const head = selectHead.get(conversation);
        if (head === undefined) return { status: 'empty' };
        // On the lease's clock, too: the wall clock may jump. The back-off of an earlier opening is over.
        const { holder, lease_until, not_before } = head;
        const forMs = heldForMs({ holder, lease_until: Math.max(lease_until, not_before) });
        if (forMs > 0) return { status: 'wait', forMs };
        lend.run(...leaseFor(leaseMs), head.seq);
        return {
          status: 'claimed',
          lease: { conversation, deliveryId: head.id, epoch: head.epoch + 1 },
          delivery: JSON.parse(head.body) as Delivery,
          attempt: head.attempts + 1,
        };
      });
    },

    settle(lease) {
      return db.write(() => {
        const row = held(lease);
        if (row === undefined) return false;
        remove.run(row.seq);
        return hasMore(row);
      });
    },

    retryLater(lease, delayMs, error) {
      return db.write(() => {
        const row = held(lease);
        if (row === undefined) return false;
        putOff.run(...leaseFor(delayMs), error, row.seq);
        return true;
      });
    },

    postpone(lease, delayMs, reason) {
      return db.write(() => {
        const row = held(lease);
        if (row === undefined) return false;
        putOff.run(...leaseFor(delayMs), reason, row.seq);
        uncount.run(row.seq);
        return true;
      });
    },

    park(lease, error) {
      return db.write(() => {
        const row = held(lease);
        if (row === undefined) return false;
        putAside.run(error, row.seq);
        return hasMore(row);
      });
    },

    list({ state, cursor, limit }) {
      return db.read(() => {
        const after = cursor === undefined ? 0 : Number(cursor);
        if (!Number.isSafeInteger(after)) return { items: [] };
        const rows = page.all(state === 'parked' ? 1 : 0, after, limit + 1);
        const shown = rows.slice(0, limit);
        const last = shown.at(-1);
        return {
          items: shown.map((row) => recordOf(row, state)),
          ...(rows.length > limit && last !== undefined && { cursor: String(last.seq) }),
        };
      });
    },

    add(delivery) {
      return db.write(() => {
        const { key } = ensure(delivery.conversation, Date.now());
        requeue.run(key, delivery.id, JSON.stringify(delivery), 0);
      });
    },

    retry(deliveryId) {
      return db.write(() => {
        const row = selectParked.get(deliveryId);
        if (row === undefined) return undefined;
        remove.run(row.seq);
        requeue.run(row.conversation, row.id, row.body, row.epoch);
        return (JSON.parse(row.body) as Delivery).conversation;
      });
    },
  };
}
