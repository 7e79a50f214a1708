// What the embedded store keeps when its process is killed, restarted, or the disk is full.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Storage } from '../../src/ports/storage.ts';
import { createArrivals } from '../../src/storage/sqlite/arrivals.ts';
import { createSignals } from '../../src/storage/sqlite/control.ts';
import { createConversations } from '../../src/storage/sqlite/conversations.ts';
import { openDatabase } from '../../src/storage/sqlite/database.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { createReader } from '../../src/storage/sqlite/reader.ts';
import { createStore } from '../../src/storage/sqlite/store.ts';
import {
  LONG_MS,
  assistantEntry,
  claimed,
  collect,
  commitDeliveries,
  delivery,
  inbound,
  merge,
  userEntry,
} from '../contract/suites/support.ts';
import { silentLog } from '../fakes/log.ts';

const APPENDER = join(import.meta.dirname, 'sqlite-appender.ts');

describe('the embedded store, when things go wrong', () => {
  let folder: string;
  let file: string;
  const opened: Storage[] = [];
  const open = async (): Promise<Storage> => {
    const storage = await createSqliteStorage({ file, dedupeHours: 48, historyTtlDays: 0, log: silentLog });
    opened.push(storage);
    return storage;
  };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lanekeeper-faults-'));
    file = join(folder, 'lanekeeper.db');
  });
  afterEach(async () => {
    for (const storage of opened.splice(0)) await storage.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Runs the appender until `until` says so or it ends by itself; gives its lines. */
  const append = async (
    command: [string, ...string[]],
    until: (lines: string[]) => boolean,
  ): Promise<string[]> => {
    const [program, ...args] = command;
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    const lines: string[] = [];
    for await (const line of createInterface(child.stdout)) {
      lines.push(line);
      if (until(lines)) child.kill('SIGKILL');
    }
    await exited;
    return lines;
  };
  const idsOf = (lines: string[], word: string) =>
    lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.split(' ')[1] ?? '');
  const conversationOf = (id: string) => `acct:${Number(id.split('-')[1]) % 7}`;

  it('keeps every append that was acknowledged before a kill -9', async () => {
    for (const count of [100, 1_000]) {
      const lines = await append([process.execPath, APPENDER, file], (seen) => seen.length >= count);
      const acknowledged = idsOf(lines, 'ok');
      expect(acknowledged.length).toBeGreaterThanOrEqual(count);
      const { reader, close } = await open();
      for (const id of acknowledged)
        expect(await reader.status(conversationOf(id), id)).toEqual({ state: 'queued' });
      await close();
      await rm(file, { force: true });
    }
  });

  it('keeps what was acknowledged and nothing else when the disk takes no more', async () => {
    // The limit on the size of a file stands in for a full disk: the write to the log fails in the middle.
    const lines = await append(
      ['bash', '-c', 'ulimit -f 2000; exec "$0" "$@"', process.execPath, APPENDER, file, 'refused'],
      () => false,
    );
    const acknowledged = idsOf(lines, 'ok');
    const refused = idsOf(lines, 'refused');
    expect(acknowledged.length).toBeGreaterThan(100);
    expect(refused.length).toBeGreaterThan(0);
    const { store, reader } = await open();
    for (const id of acknowledged)
      expect(await reader.status(conversationOf(id), id)).toEqual({ state: 'queued' });
    for (const id of refused) {
      expect(await reader.status(conversationOf(id), id)).toBeUndefined();
      expect(await store.append(inbound(conversationOf(id), id))).toEqual({ duplicate: false });
    }
  });

  it('refuses what has no room, wholly, and goes on when there is room again', async () => {
    const db = openDatabase({ file });
    try {
      const conversations = createConversations(db);
      const signals = createSignals(silentLog);
      const arrivals = createArrivals(db, conversations, signals);
      const store = createStore(db, conversations, arrivals, signals);
      const reader = createReader(db, conversations);
      const limit = (pages: number) =>
        db.prepare<{ max_page_count: number }>(`PRAGMA max_page_count = ${pages}`).get();
      const pages = db.prepare<{ page_count: number }>('PRAGMA page_count').get()?.page_count ?? 0;
      await store.append(inbound('acct:a', 'm1'));
      const { lease } = await claimed(store, 'acct:a', 'r1');
      limit(pages + 3);

      const big = 'x'.repeat(100_000);
      const entries = [userEntry('r1', 'q'), assistantEntry('r1', big)];
      const results = await Promise.allSettled([
        store.append(inbound('acct:b', 'small')),
        store.append(inbound('acct:c', 'big', { text: big })),
        store.journal(lease, [
          { v: 1, kind: 'tool_start', call_id: 'c1' },
          {
            v: 1,
            kind: 'tool_result',
            call_id: 'c1',
            block: { type: 'tool_result', tool_use_id: 'c1', content: big },
          },
        ]),
        store.commit(lease, merge({ entries, deliveries: [delivery('acct:a', 'r1.0')] })),
      ]);
      expect(results.map((result) => result.status)).toEqual([
        'fulfilled',
        'rejected',
        'rejected',
        'rejected',
      ]);
      for (const result of results)
        if (result.status === 'rejected')
          expect(result.reason).toMatchObject({
            code: 'storage_unavailable',
            message: expect.stringContaining('free some disk space'),
          });

      expect(await reader.status('acct:b', 'small')).toEqual({ state: 'queued' });
      expect(await reader.status('acct:c', 'big')).toBeUndefined();
      expect(await reader.status('acct:a', 'm1')).toEqual({ state: 'running', run: 'r1' });
      expect(await reader.state('acct:a')).toMatchObject({ length: 0, pending: 1 });
      expect(await collect(reader.pending('outbox'))).toEqual([]);

      limit(1_000_000);
      expect(await store.append(inbound('acct:c', 'big', { text: big }))).toEqual({ duplicate: false });
      await store.release(lease);
      const again = await claimed(store, 'acct:a', 'r2');
      expect(again.snapshot.journal).toEqual([]);
      expect(await store.commit(again.lease, merge({ entries }))).toEqual({ more: false });
      expect((await reader.history('acct:a', { limit: 10 })).items).toEqual(entries);
    } finally {
      db.close();
    }
  });

  it('resumes at once after a restart: leases of the process that is gone hold nothing up', async () => {
    const first = await open();
    await first.store.append(inbound('acct:a', 'm1'));
    const { lease } = await claimed(first.store, 'acct:a', 'r1');
    await first.store.journal(lease, [{ v: 1, kind: 'tool_start', call_id: 'c1' }]);
    await commitDeliveries(first.store, 'acct:b', 'rb', [delivery('acct:b', 'rb.0')]);
    expect(await first.outbox.claim('acct:b', LONG_MS)).toMatchObject({ status: 'claimed', attempt: 1 });
    await commitDeliveries(first.store, 'acct:c', 'rc', [delivery('acct:c', 'rc.0')]);
    const failing = await first.outbox.claim('acct:c', LONG_MS);
    if (failing.status !== 'claimed') throw new Error(failing.status);
    await first.outbox.retryLater(failing.lease, 60_000, 'busy');
    await first.close();

    const second = await open();
    expect((await second.reader.state('acct:a')).run).toBeUndefined();
    const resumed = await claimed(second.store, 'acct:a', 'r2');
    expect(resumed.lease.run).toBe('r1');
    expect(resumed.lease.epoch).toBeGreaterThan(lease.epoch);
    expect(resumed.snapshot).toMatchObject({ attempt: 2, journal: [{ call_id: 'c1' }] });
    expect(await second.store.commit(lease, merge())).toBe(false);
    expect(await second.outbox.claim('acct:b', LONG_MS)).toMatchObject({ status: 'claimed', attempt: 2 });
    // Back-off is told on the clock of an opening, which no jump of the wall clock reaches: a restart tries again at once.
    expect(await second.outbox.claim('acct:c', LONG_MS)).toMatchObject({ status: 'claimed', attempt: 2 });
  });

  it('knows after a restart what it knew before', async () => {
    const first = await open();
    await first.store.append(inbound('acct:a', 'm1'));
    const { lease } = await claimed(first.store, 'acct:a', 'r1');
    const entries = [userEntry('r1', 'q'), assistantEntry('r1', 'a')];
    await first.store.commit(lease, merge({ entries, context: { from: 1, summary: 's' } }));
    await first.index.remember('acct', 'm1', { conversation: 'acct:a', fingerprint: 'f' });
    await first.events.publish('acct:a', [
      { conversation: 'acct:a', run: 'r1', turn: 0, type: 'turn_start' },
    ]);
    const { end } = await first.events.position('acct:a');
    await first.close();

    const second = await open();
    expect(await second.store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: true });
    expect(await second.index.find('acct', 'm1')).toEqual({ conversation: 'acct:a', fingerprint: 'f' });
    expect((await second.reader.history('acct:a', { limit: 10 })).items).toEqual(entries);
    await second.store.append(inbound('acct:a', 'm2'));
    expect((await claimed(second.store, 'acct:a', 'r2')).snapshot).toMatchObject({
      contextFrom: 1,
      summary: 's',
    });
    // Event ids of the process that is gone are unknown to this one.
    const subscription = await second.events.subscribe('acct:a', {
      after: end,
      signal: new AbortController().signal,
    });
    for await (const logged of subscription) {
      expect(logged).toMatchObject({ resync: true });
      break;
    }
  });
});
