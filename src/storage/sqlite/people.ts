// The embedded People: strangers' requests and approvals, one row a person.
import {
  MAX_WAITING_PAIRINGS,
  PAIRING_TTL_MS,
  type Notice,
  type Pairing,
  type People,
} from '../../ports/people.ts';
import type { Database } from './database.ts';

interface Row {
  code: string;
  account: string;
  person: string;
  name: string | null;
  tell: string | null;
  at: number;
  approved_at: number | null;
  approved_by: string | null;
}

const COLUMNS = 'code, account, person, name, tell, at, approved_at, approved_by';

export function createPeople(db: Database): People {
  const expire = db.prepare('DELETE FROM people WHERE approved_at IS NULL AND at < ?');
  const byPerson = db.prepare<Row>(`SELECT ${COLUMNS} FROM people WHERE account = ? AND person = ?`);
  const byCode = db.prepare<Row>(`SELECT ${COLUMNS} FROM people WHERE code = ?`);
  const waiting = db.prepare<{ n: number }>(
    'SELECT count(*) AS n FROM people WHERE account = ? AND approved_at IS NULL',
  );
  const insert = db.prepare(
    'INSERT INTO people (code, account, person, name, tell, at) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const approve = db.prepare('UPDATE people SET approved_at = ?, approved_by = ? WHERE code = ?');
  const remove = db.prepare('DELETE FROM people WHERE code = ?');
  const all = db.prepare<Row>(`SELECT ${COLUMNS} FROM people ORDER BY seq`);
  const forget = () => expire.run(Date.now() - PAIRING_TTL_MS);

  return {
    ask({ code, account, person, name, tell }) {
      return db.write(() => {
        forget();
        const known = byPerson.get(account, person);
        if (known) return pairing(known);
        if ((waiting.get(account)?.n ?? 0) >= MAX_WAITING_PAIRINGS) return undefined;
        insert.run(code, account, person, name ?? null, tell ? JSON.stringify(tell) : null, Date.now());
        return pairing(byCode.get(code)!);
      });
    },

    approved(account, person) {
      return db.read(() => byPerson.get(account, person)?.approved_at != null);
    },

    approve(code, by) {
      return db.write(() => {
        forget();
        const known = byCode.get(code);
        if (!known) return undefined;
        if (known.approved_at === null) approve.run(Date.now(), by, code);
        return pairing(byCode.get(code)!);
      });
    },

    remove(code) {
      return db.write(() => {
        const known = byCode.get(code);
        if (known) remove.run(code);
        return known && pairing(known);
      });
    },

    list() {
      return db.write(
        () => {
          forget();
          return all.all().map(pairing);
        },
        { durable: false },
      );
    },
  };
}

const pairing = ({ name, tell, approved_at, approved_by, ...row }: Row): Pairing => ({
  ...row,
  ...(name === null ? {} : { name }),
  ...(tell === null ? {} : { tell: JSON.parse(tell) as Notice }),
  ...(approved_at === null ? {} : { approvedAt: approved_at, approvedBy: approved_by ?? '' }),
});
