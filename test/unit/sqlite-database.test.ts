// The SQLite file under the embedded store: group commit, failures in the middle of it, the lock, migrations.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/storage/sqlite/database.ts';
import type { Database } from '../../src/storage/sqlite/database.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { silentLog } from '../fakes/log.ts';

describe('the embedded database', () => {
  let folder: string;
  let file: string;
  const opened: Database[] = [];
  const open = (): Database => {
    const db = openDatabase({ file, lockWaitMs: 50 });
    opened.push(db);
    return db;
  };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lanekeeper-db-'));
    file = join(folder, 'data', 'lanekeeper.db');
  });
  afterEach(async () => {
    for (const db of opened.splice(0)) db.close();
    await rm(folder, { recursive: true, force: true });
  });

  const withTable = () => {
    const db = open();
    db.prepare('CREATE TABLE t (n INTEGER PRIMARY KEY) STRICT').run();
    const insert = db.prepare('INSERT INTO t (n) VALUES (?)');
    const select = db.prepare<{ n: number }>('SELECT n FROM t ORDER BY n');
    const numbers = () => select.all().map((row) => row.n);
    return { db, insert: (n: number) => insert.run(n), numbers };
  };

  it('shares one transaction between the operations of one turn', async () => {
    const { db, insert, numbers } = withTable();
    const before = db.transactions();
    await Promise.all(Array.from({ length: 100 }, (_, n) => db.write(() => insert(n))));
    expect(db.transactions() - before).toBe(1);
    expect(numbers()).toHaveLength(100);
    for (let n = 100; n < 103; n += 1) await db.write(() => insert(n));
    expect(db.transactions() - before).toBe(4);
  });

  it('splits what would hold up the event loop for long', async () => {
    const { db, insert } = withTable();
    const before = db.transactions();
    await Promise.all(Array.from({ length: 1_200 }, (_, n) => db.write(() => insert(n))));
    expect(db.transactions() - before).toBe(3);
  });

  it('undoes an operation that fails, all of it, and no other', async () => {
    const { db, insert, numbers } = withTable();
    const results = await Promise.allSettled([
      db.write(() => insert(1)),
      db.write(() => {
        insert(2);
        insert(1);
      }),
      db.write(() => {
        insert(3);
        throw new Error('broken on purpose');
      }),
      db.write(() => insert(4)),
    ]);
    expect(results.map((result) => result.status)).toEqual([
      'fulfilled',
      'rejected',
      'rejected',
      'fulfilled',
    ]);
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'storage_unavailable' });
    expect(numbers()).toEqual([1, 4]);
  });

  it('rejects what made COMMIT fail, which changes nothing, and nothing else', async () => {
    const { db, insert, numbers } = withTable();
    db.prepare(
      'CREATE TABLE child (parent INTEGER REFERENCES t (n) DEFERRABLE INITIALLY DEFERRED) STRICT',
    ).run();
    // A constraint that is deferred to the COMMIT fails there and nowhere before.
    const orphan = db.prepare('INSERT INTO child (parent) VALUES (99)');
    const children = db.prepare<{ n: number }>('SELECT count(*) AS n FROM child');
    const results = await Promise.allSettled([
      db.write(() => insert(1)),
      db.write(() => {
        insert(50);
        orphan.run();
      }),
      db.write(() => insert(2)),
      db.write(() => orphan.run()),
    ]);
    expect(results.map((result) => result.status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'rejected',
    ]);
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'storage_unavailable' });
    expect(numbers()).toEqual([1, 2]);
    expect(children.get()?.n).toBe(0);
    await db.write(() => insert(3));
    expect(numbers()).toEqual([1, 2, 3]);
  });

  it('settles only after the commit: nothing that is not durable is seen', async () => {
    const { db, insert, numbers } = withTable();
    const writing = db.write(() => insert(1));
    expect(await db.read(numbers)).toEqual([]);
    await writing;
    expect(await db.read(numbers)).toEqual([1]);
  });

  it('syncs the log for what is durable, and only then', async () => {
    const { db, insert } = withTable();
    // Prepared anew each time: SQLite reads this pragma when it compiles it.
    const level = () => db.prepare<{ synchronous: number }>('PRAGMA synchronous').get()?.synchronous;
    const [FULL, NORMAL] = [2, 1];
    expect(level()).toBe(FULL);
    await db.write(() => insert(1), { durable: false });
    expect(level()).toBe(NORMAL);
    await Promise.all([db.write(() => insert(2), { durable: false }), db.write(() => insert(3))]);
    expect(level()).toBe(FULL);
  });

  it('commits what is queued when it is closed, and refuses what comes later', async () => {
    const { db, insert } = withTable();
    const writing = [db.write(() => insert(1)), db.write(() => insert(2))];
    db.close();
    db.close();
    await Promise.all(writing);
    await expect(db.write(() => insert(3))).rejects.toMatchObject({ code: 'storage_unavailable' });
    await expect(db.read(() => 1)).rejects.toMatchObject({ code: 'storage_unavailable' });
    const select = open().prepare<{ n: number }>('SELECT n FROM t');
    expect(select.all().map((row) => row.n)).toEqual([1, 2]);
  });

  it('is for one process: a second one is told so', async () => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'sqlite-appender.ts'), file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      await once(createInterface(child.stdout), 'line');
      expect(() => open()).toThrow(
        /Another process uses .*lanekeeper\.db.* stop the other one, or set REDIS_URL/,
      );
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    // The lock died with its owner.
    expect(open().opening).toBe(2);
  });

  it('counts its openings', () => {
    const first = open();
    expect(first.opening).toBe(1);
    first.close();
    expect(open().opening).toBe(2);
  });

  it('keeps the folder to its owner', async () => {
    open();
    expect((await stat(dirname(file))).mode & 0o777).toBe(0o700);
  });

  it('says what is wrong with a file that is not a database, or a folder that cannot be', async () => {
    const other = join(folder, 'notes.txt');
    await writeFile(other, 'This is no database. '.repeat(500));
    expect(() => openDatabase({ file: other })).toThrow(
      /Cannot open the database .*notes\.txt: .*not a database/,
    );
    expect(() => openDatabase({ file: join(other, 'x', 'y.db') })).toThrow(/Cannot open the database/);
  });

  it('opens a database of the first release, and keeps all that is in it', async () => {
    const migrations = join(import.meta.dirname, '../../src/storage/sqlite/migrations');
    await mkdir(dirname(file), { recursive: true });
    const old = new DatabaseSync(file);
    old.exec(await readFile(join(migrations, '001-initial.sql'), 'utf8'));
    old.exec(`
      PRAGMA user_version = 1;
      INSERT INTO conversations (key, id, active_at, length, epoch) VALUES (7, 'acct:a', 5, 1, 3), (8, 'acct:b', 6, 0, 0);
      INSERT INTO messages (seq, conversation, id, at) VALUES (1, 7, 'm1', 4), (2, 7, 'm2', 5), (3, 7, 'm3', 5);
      UPDATE messages SET outcome = 'done', run = 'r1', reply = '{"text":"hi"}' WHERE id = 'm1';
      INSERT INTO inbox (conversation, seq, body) SELECT 7, seq,
        json_object('id', id, 'conversation', 'acct:a', 'account', 'acct', 'at', at, 'text', 't', 'busy', 'steer',
          'sender', json('{"id":"u"}')) FROM messages WHERE outcome IS NULL;
      INSERT INTO history VALUES (7, 0, 0, '{"role":"user","content":[{"type":"text","text":"t"}],"at":4,"run":"r1","id":"m1"}');
      INSERT INTO outbox (conversation, id, body) VALUES (7, 'r1.0', '{"id":"r1.0","conversation":"acct:a"}');
    `);
    old.close();

    const storage = await createSqliteStorage({ file, dedupeHours: 1, historyTtlDays: 0, log: silentLog });
    const { store, reader, outbox } = storage;
    expect(await reader.state('acct:a')).toMatchObject({ pending: 2, length: 1 });
    expect(await reader.state('acct:b')).toMatchObject({ pending: 0, length: 0 });
    expect(await reader.status('acct:a', 'm1')).toEqual({ state: 'done', run: 'r1', reply: { text: 'hi' } });
    expect((await outbox.list({ state: 'pending', limit: 5 })).items).toMatchObject([{ id: 'r1.0' }]);
    const claim = await store.claim('acct:a', { run: 'r2', leaseMs: 60_000, limit: 5 });
    if (claim.status !== 'claimed') throw new Error(claim.status);
    expect(claim.lease.epoch).toBe(4);
    expect(claim.snapshot.inbox.map(({ id }) => id)).toEqual(['m2', 'm3']);
    expect(claim.snapshot.context).toMatchObject([{ id: 'm1' }]);
    const outcome = { status: 'done' as const, reply: { text: 'ok' } };
    expect(await store.commit(claim.lease, { entries: [], deliveries: [], outcome })).toEqual({
      more: false,
    });
    expect((await reader.state('acct:a')).pending).toBe(0);
    expect(await storage.people.list()).toEqual([]);
    await storage.close();
    const names = (await readdir(migrations)).filter((name) => name.endsWith('.sql'));
    const now = new DatabaseSync(file);
    expect(now.prepare('PRAGMA user_version').get()).toEqual({ user_version: names.length });
    now.close();
  });

  it('leaves a database of a later release alone', () => {
    open().close();
    const later = new DatabaseSync(file);
    later.exec('PRAGMA user_version = 99');
    later.close();
    expect(() => open()).toThrow(/version 99.*later release/);
  });
});
