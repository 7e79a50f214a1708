// Formats of what is stored, on both storages: what a server of version 1 wrote (test/fixtures/formats, never to be changed)
// is read by this one, and what a later release wrote is left alone until a process of that release takes it.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { createLane } from '../../src/lane/lane.ts';
import type { Storage } from '../../src/ports/storage.ts';
import type { JournalEntry } from '../../src/ports/store.ts';
import { createFormat } from '../../src/storage/formats.ts';
import { conversationKeys } from '../../src/storage/redis/keys.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { systemClock } from '../../src/system-clock.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { recordingLog, silentLog } from '../fakes/log.ts';
import { startRedis } from '../fakes/redis-server.ts';
import { claimed, inbound, LONG_MS, merge, userEntry } from './suites/support.ts';

const { later, track } = useCleanups();
const CONVERSATION = 'acct:a';

type Kind = 'journal' | 'history' | 'inbox';

const recorded = (kind: Kind): string[] =>
  readFileSync(join(import.meta.dirname, `../fixtures/formats/${kind}-1.jsonl`), 'utf8')
    .trim()
    .split('\n');
const values = (kind: Kind): unknown[] => recorded(kind).map((line) => JSON.parse(line) as unknown);

interface Opened {
  storage: Storage;
  /** Puts records in place of those that are there, past the server's own code. */
  write(kind: Kind, records: string[]): Promise<void>;
}

async function openRedis(): Promise<Opened> {
  const server = track(await startRedis());
  const storage = track(await createRedisStorage({ url: server.url, log: silentLog }));
  const client = new Redis(server.url);
  later(() => client.disconnect());
  const keys = conversationKeys(CONVERSATION);
  return {
    storage,
    async write(kind, records) {
      const entries = kind === 'inbox' ? records.map((record) => `jm1\n${record}`) : records;
      await client
        .multi()
        .del(keys[kind])
        .rpush(keys[kind], ...entries)
        .exec();
    },
  };
}

/** The file belongs to the process that has it open: it is closed while somebody else writes. */
async function openSqlite(): Promise<Opened> {
  const folder = await mkdtemp(join(tmpdir(), 'lanekeeper-formats-'));
  later(() => rm(folder, { recursive: true }));
  const file = join(folder, 'lanekeeper.db');
  const open = () => createSqliteStorage({ file, dedupeHours: 48, historyTtlDays: 0, log: silentLog });
  const opened: Opened = {
    storage: await open(),
    async write(kind, records) {
      await opened.storage.close();
      const db = new DatabaseSync(file);
      if (kind === 'inbox') db.prepare('UPDATE inbox SET body = ?').run(records[0]!);
      else {
        const sql = {
          journal: 'INSERT INTO journal (conversation, step, body) VALUES (1, ?, ?)',
          history: 'INSERT INTO history (conversation, generation, position, body) VALUES (1, 0, ?, ?)',
        };
        db.exec(`DELETE FROM ${kind}`);
        for (const [n, record] of records.entries()) db.prepare(sql[kind]).run(n, record);
        db.prepare(`UPDATE conversations SET ${kind === 'journal' ? 'steps' : 'length'} = ?`).run(
          records.length,
        );
      }
      db.close();
      opened.storage = await open();
    },
  };
  later(() => opened.storage.close());
  return opened;
}

describe.each([
  ['redis', openRedis],
  ['sqlite', openSqlite],
])('on %s', (_name, open) => {
  /** An interrupted run with what version 1 wrote. */
  async function interrupted(): Promise<Opened> {
    const opened = await open();
    const { store } = opened.storage;
    await store.append(inbound(CONVERSATION, 'm1'));
    const { lease } = await claimed(store, CONVERSATION, 'r1');
    await store.journal(lease, values('journal') as JournalEntry[]);
    await store.release(lease);
    for (const kind of ['history', 'inbox', 'journal'] as const) await opened.write(kind, recorded(kind));
    return opened;
  }

  it('what version 1 wrote is read as it was', async () => {
    const { storage } = await interrupted();
    const { lease, snapshot } = await claimed(storage.store, CONVERSATION, 'r2');
    expect(lease.run).toBe('r1');
    expect(snapshot.journal).toEqual(values('journal'));
    expect(snapshot.context).toEqual(values('history'));
    expect(snapshot.inbox).toEqual(values('inbox'));
    expect((await storage.reader.history(CONVERSATION, { limit: 10 })).items).toEqual(values('history'));
    await storage.store.commit(lease, merge({ entries: [userEntry('r1', 'new')] }));
    expect((await storage.reader.state(CONVERSATION)).length).toBe(values('history').length + 1);
  });

  it.each([
    ['journal', { v: 2, kind: 'something_new', data: 1 }],
    ['history', { v: 3, role: 'user', content: [{ type: 'hologram' }], at: 1, run: 'r0' }],
    ['inbox', { v: 2, id: 'm1', conversation: CONVERSATION, parts: [] }],
  ] as const)(
    '%s of a later release is left to it: said, and nothing lost or counted',
    async (kind, record) => {
      const opened = await interrupted();
      const old = kind === 'inbox' ? [] : recorded(kind);
      await opened.write(kind, [...old, JSON.stringify(record)]);
      const { store, control } = opened.storage;
      const { log, lines } = recordingLog();
      const lane = createLane({
        store,
        control,
        run: () => Promise.reject(new Error('must not run')),
        config: () => configSchema.parse({}),
        newRunId: () => 'r9',
        clock: systemClock,
        log,
        onEnd: () => undefined,
      });
      for (let n = 0; n < 7; n += 1)
        expect(await lane.handler(CONVERSATION, new AbortController().signal)).toEqual({ retryInMs: 5_000 });
      lane.close();
      expect(lines).toHaveLength(7);
      expect(lines[0]).toMatchObject({
        level: 'error',
        message: expect.stringContaining('later release'),
        fields: { conversation: CONVERSATION, version: record.v },
      });
      expect(await opened.storage.reader.state(CONVERSATION)).toMatchObject({ pending: 1 });

      // As if the later release were not there any more, with what it had written.
      await opened.write(kind, recorded(kind));
      const { lease, snapshot } = await claimed(opened.storage.store, CONVERSATION, 'r3');
      expect(lease.run).toBe('r1');
      expect(snapshot.journal).toEqual(values('journal'));
      expect(snapshot.attempt).toBe(1);
    },
  );

  it('people see what is known of an entry of a later release', async () => {
    const opened = await interrupted();
    const entry = {
      v: 2,
      role: 'assistant',
      content: [{ type: 'text', text: 'hi' }],
      at: 1,
      run: 'r0',
      new: 1,
    };
    await opened.write('history', [...recorded('history'), JSON.stringify(entry)]);
    const { items } = await opened.storage.reader.history(CONVERSATION, { limit: 10 });
    expect(items.at(-1)).toMatchObject(entry);
  });

  it('a run gives itself up to the later release when it would take one of its messages in', async () => {
    const { storage } = await open();
    const { store } = storage;
    await store.append(inbound(CONVERSATION, 'm1'));
    const { lease } = await claimed(store, CONVERSATION, 'r1');
    const entry: JournalEntry = { v: 1, kind: 'steered', messages: ['m1'] };
    await store.journal(lease, [entry]);
    await store.append(Object.assign(inbound(CONVERSATION, 'm2'), { v: 2 }));
    expect(await store.drain(lease, 5)).toBeUndefined();
    expect(await store.journal(lease, [entry])).toBe(false);
    expect(await store.claim(CONVERSATION, { run: 'r2', leaseMs: LONG_MS, limit: 5 })).toEqual({
      status: 'newer',
      version: 2,
    });
    expect((await storage.reader.state(CONVERSATION)).pending).toBe(2);
  });
});

describe('a format', () => {
  // Invented: version 0 had a text where version 1 has blocks, and version 2 names the speaker.
  const format = createFormat<{ v?: number; content: unknown; speaker?: string }>(2, {
    0: ({ text, ...rest }) => ({ ...rest, content: [{ type: 'text', text }] }),
    1: (record) => ({ ...record, speaker: record['name'] ?? 'unknown' }),
  });

  it.each([
    [
      { v: 0, text: 'hi' },
      { v: 2, content: [{ type: 'text', text: 'hi' }], speaker: 'unknown' },
    ],
    [
      { content: [], name: 'Ann' },
      { v: 2, content: [], name: 'Ann', speaker: 'Ann' },
    ],
    [
      { v: 2, content: [], speaker: 'Bo' },
      { v: 2, content: [], speaker: 'Bo' },
    ],
  ])('%o is brought up to date', (old, record) => {
    expect(format.read(JSON.stringify(old))).toEqual({ record });
  });

  it.each([
    [3, 3],
    ['4', Number.POSITIVE_INFINITY],
  ])('%o is a later one', (v, newer) => {
    expect(format.read(JSON.stringify({ v, content: 1 }))).toEqual({ record: { v, content: 1 }, newer });
  });

  it('an older one without a step is an error of the program', () => {
    expect(() => format.read('{"v":-1}')).toThrow(/no step from version -1/);
  });
});
