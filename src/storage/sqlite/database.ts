// The SQLite file under the embedded store: opening, migrations, and group commit.
//
// Operations of one turn of the event loop share a transaction, so that they share its fsync. Each runs in a savepoint
// of its own: one that fails is undone alone. Where SQLite gives up the whole transaction (a full disk, an I/O error, a
// COMMIT that fails) nothing was changed, and each operation is tried once more in a transaction of its own. Promises
// settle after COMMIT.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SQLInputValue } from 'node:sqlite';
import { AppError } from '../../domain/errors.ts';

/** A prepared statement; Row is what its SELECT gives. */
export interface Statement<Row> {
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  run(...values: SQLInputValue[]): { changes: number; id: number };
}

export interface WriteOptions {
  /**
   * False: not worth an fsync of its own. It survives the death of the process, and a power cut as far as something
   * durable was committed after it (the log keeps its order). For claims and heartbeats, which are undone safely.
   */
  durable?: boolean;
}

export interface Database {
  /**
   * Runs the operation in this turn's transaction. It has to be synchronous, and to touch nothing but the database: it
   * may be run again. Rejects with AppError 'storage_unavailable'; then it changed nothing.
   */
  write<T>(operation: () => T, options?: WriteOptions): Promise<T>;
  /** Reads what is committed, at once. */
  read<T>(operation: () => T): Promise<T>;
  prepare<Row>(sql: string): Statement<Row>;
  /** Which opening of this database it is: 1, 2, 3 … What an earlier one had leased is free. */
  opening: number;
  /** Transactions so far. */
  transactions(): number;
  /** Commits what is queued and closes the file. Idempotent. */
  close(): void;
}

export interface DatabaseOptions {
  file: string;
  /** How long to wait for another process to let go of the file. */
  lockWaitMs?: number;
}

const MIGRATIONS = new URL('./migrations/', import.meta.url);
/** Longest transaction: the event loop does nothing else meanwhile. */
const MAX_BATCH = 500;
const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;

const sqliteCode = (error: unknown): number | undefined =>
  error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode & 0xff
    : undefined;

function unavailable(error: unknown, file: string): AppError {
  if (error instanceof AppError) return error;
  const what =
    sqliteCode(error) === SQLITE_FULL
      ? `No space is left for ${file}: free some disk space.`
      : `The database ${file} failed: ${error instanceof Error ? error.message : String(error)}`;
  return new AppError('storage_unavailable', what, { cause: error });
}

export function openDatabase({ file, lockWaitMs = 1_000 }: DatabaseOptions): Database {
  const db = connect(file, lockWaitMs);

  const prepare = <Row>(sql: string): Statement<Row> => {
    const statement = db.prepare(sql);
    return {
      // The one place where a row's shape is taken on trust: SQL and type stand side by side where it is called.
      get: (...values) => statement.get(...values) as Row | undefined,
      all: (...values) => statement.all(...values) as Row[],
      run: (...values) => {
        const { changes, lastInsertRowid } = statement.run(...values);
        return { changes: Number(changes), id: Number(lastInsertRowid) };
      },
    };
  };

  const begin = db.prepare('BEGIN IMMEDIATE');
  const commit = db.prepare('COMMIT');
  const rollback = db.prepare('ROLLBACK');
  const savepoint = db.prepare('SAVEPOINT operation');
  const undo = db.prepare('ROLLBACK TO operation');
  const release = db.prepare('RELEASE operation');

  interface Queued {
    operation: () => unknown;
    durable: boolean;
    resolve: (value: unknown) => void;
    reject: (error: AppError) => void;
  }
  let queue: Queued[] = [];
  let next: NodeJS.Immediate | undefined;
  let durableNow = true;
  let transactions = 0;
  let closed = false;

  /** Runs one operation and says how its promise will settle. Throws if the whole transaction is gone. */
  function attempt({ operation, resolve, reject }: Queued): () => void {
    savepoint.run();
    try {
      const value = operation();
      release.run();
      return () => resolve(value);
    } catch (error) {
      if (!db.isTransaction) throw error;
      undo.run();
      release.run();
      return () => reject(unavailable(error, file));
    }
  }

  function transact(batch: Queued[]): void {
    const settlements: (() => void)[] = [];
    try {
      const durable = batch.some((queued) => queued.durable);
      // Not prepared: SQLite carries this pragma out when it is compiled.
      if (durable !== durableNow) db.exec(`PRAGMA synchronous = ${durable ? 'FULL' : 'NORMAL'}`);
      durableNow = durable;
      begin.run();
      for (const queued of batch) settlements.push(attempt(queued));
      commit.run();
      transactions += 1;
    } catch (error) {
      if (db.isTransaction) rollback.run();
      const [first, ...others] = batch;
      if (first === undefined) return;
      if (others.length === 0) first.reject(unavailable(error, file));
      else for (const queued of batch) transact([queued]);
      return;
    }
    for (const settle of settlements) settle();
  }

  function flush(): void {
    next = undefined;
    const batch = queue.slice(0, MAX_BATCH);
    queue = queue.slice(MAX_BATCH);
    if (queue.length > 0) next = setImmediate(flush);
    transact(batch);
  }

  const closedError = () => new AppError('storage_unavailable', `The database ${file} is closed.`);

  return {
    write<T>(operation: () => T, { durable = true }: WriteOptions = {}) {
      if (closed) return Promise.reject(closedError());
      return new Promise<T>((resolve, reject) => {
        queue.push({ operation, durable, resolve: resolve as (value: unknown) => void, reject });
        next ??= setImmediate(flush);
      });
    },

    async read(operation) {
      if (closed) throw closedError();
      try {
        return operation();
      } catch (error) {
        throw unavailable(error, file);
      }
    },

    prepare,
    opening: countOpening(db, file),
    transactions: () => transactions,

    close() {
      if (closed) return;
      closed = true;
      if (next !== undefined) clearImmediate(next);
      while (queue.length > 0) transact(queue.splice(0, MAX_BATCH));
      db.close();
    },
  };
}

function connect(file: string, lockWaitMs: number): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    // Conversations are private: nobody else on the machine reads them.
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    db = new DatabaseSync(file, { timeout: lockWaitMs });
    db.exec(`
      PRAGMA locking_mode = EXCLUSIVE; -- held until the process ends, however it ends
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA cache_size = -8000;
      PRAGMA journal_size_limit = 67108864;
      PRAGMA temp_store = MEMORY;
      BEGIN EXCLUSIVE; COMMIT;
    `);
    migrate(db);
    return db;
  } catch (error) {
    db?.close();
    if (error instanceof AppError) throw error;
    const detail =
      sqliteCode(error) === SQLITE_BUSY
        ? `Another process uses ${file}. Embedded storage serves one process: stop the other one, or set REDIS_URL to run several.`
        : `Cannot open the database ${file}: ${error instanceof Error ? error.message : String(error)}`;
    throw new AppError('storage_unavailable', detail, { cause: error });
  }
}

/** Applies what migrations/ has beyond the database's version: NNN-name.sql, each in a transaction of its own. */
function migrate(db: DatabaseSync): void {
  const row = db.prepare('PRAGMA user_version').get();
  const version = Number(row?.user_version);
  const files = readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith('.sql'))
    .sort();
  if (version > files.length)
    throw new AppError(
      'storage_unavailable',
      `The database is of version ${version}, which a later release made; this one knows ${files.length}. Start that release, or another data folder.`,
    );
  for (const [n, name] of files.entries()) {
    if (n < version) continue;
    const sql = readFileSync(new URL(name, MIGRATIONS), 'utf8');
    try {
      db.exec(`BEGIN; ${sql}; PRAGMA user_version = ${n + 1}; COMMIT;`);
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    }
  }
}

function countOpening(db: DatabaseSync, file: string): number {
  try {
    const row = db.prepare('UPDATE openings SET count = count + 1 RETURNING count').get();
    return Number(row?.count);
  } catch (error) {
    db.close();
    throw unavailable(error, file);
  }
}
