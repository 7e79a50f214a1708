// What the embedded store deletes, and what it must not.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createArrivals } from '../../src/storage/sqlite/arrivals.ts';
import { createFailed } from '../../src/storage/sqlite/failed.ts';
import { createSignals } from '../../src/storage/sqlite/control.ts';
import { createConversations } from '../../src/storage/sqlite/conversations.ts';
import { openDatabase } from '../../src/storage/sqlite/database.ts';
import type { Database } from '../../src/storage/sqlite/database.ts';
import { createMaintenance } from '../../src/storage/sqlite/maintenance.ts';
import type { Maintenance, MaintenanceOptions } from '../../src/storage/sqlite/maintenance.ts';
import { createMessageIndex } from '../../src/storage/sqlite/message-index.ts';
import { createNotes } from '../../src/storage/sqlite/notes.ts';
import { createOutbox } from '../../src/storage/sqlite/outbox.ts';
import { createPreferences } from '../../src/storage/sqlite/preferences.ts';
import { createReader } from '../../src/storage/sqlite/reader.ts';
import { createStore } from '../../src/storage/sqlite/store.ts';
import {
  LONG_MS,
  claimed,
  commitDeliveries,
  delivery,
  inbound,
  merge,
  userEntry,
} from '../contract/suites/support.ts';
import { silentLog } from '../fakes/log.ts';

describe('maintenance of the embedded store', () => {
  let folder: string;
  let db: Database;
  const running: Maintenance[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lanekeeper-maintenance-'));
    db = openDatabase({ file: join(folder, 'lanekeeper.db') });
  });
  afterEach(async () => {
    for (const one of running.splice(0)) one.stop();
    db.close();
    await rm(folder, { recursive: true, force: true });
  });

  const parts = () => {
    const conversations = createConversations(db);
    const signals = createSignals(silentLog);
    const arrivals = createArrivals(db, conversations, signals);
    return {
      store: createStore(db, conversations, arrivals, signals),
      failed: createFailed(db, conversations, arrivals),
      reader: createReader(db, conversations),
      outbox: createOutbox(db, conversations),
      index: createMessageIndex(db),
    };
  };
  const maintain = (options: Partial<MaintenanceOptions>): Maintenance => {
    const one = createMaintenance({
      db,
      dedupeMs: 0,
      historyTtlMs: 0,
      log: silentLog,
      stepRows: 10,
      ...options,
    });
    running.push(one);
    return one;
  };
  const count = (table: string) => db.prepare<{ n: number }>(`SELECT count(*) AS n FROM ${table}`).get()?.n;
  /** Until what was written is older than now. */
  const later = async () => {
    const start = Date.now();
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(start + 1), { interval: 1 });
  };
  const run = async (store: ReturnType<typeof parts>['store'], conversation: string, n: number) => {
    await store.append(inbound(conversation, `m${n}`));
    const { lease } = await claimed(store, conversation, `r${n}`);
    await store.commit(lease, merge({ entries: [userEntry(`r${n}`, 'q'), userEntry(`r${n}`, 'a')] }));
  };

  it('forgets context notes beyond the dedupe window, and what was chosen with its conversation', async () => {
    const notes = createNotes(db);
    const preferences = createPreferences(db);
    const { store } = parts();
    for (let n = 0; n < 25; n += 1)
      await notes.add('acct:g', { id: `n${n}`, at: 1, sender: { id: 'u' }, text: 'x' }, 100);
    for (const conversation of ['acct:old', 'acct:busy']) {
      await run(store, conversation, 1);
      await preferences.set(conversation, { model: 'big' });
    }
    await store.append(inbound('acct:busy', 'm2'));
    await later();
    await maintain({ dedupeMs: LONG_MS }).run();
    expect([count('notes'), count('preferences')]).toEqual([25, 2]);
    await maintain({ historyTtlMs: 1 }).run();
    expect(await notes.list('acct:g')).toEqual([]);
    expect(await preferences.get('acct:old')).toEqual({});
    expect(await preferences.get('acct:busy')).toEqual({ model: 'big' });
  });

  it('forgets messages that were answered beyond the dedupe window; those that wait stay', async () => {
    const { store, reader, index } = parts();
    await store.append(inbound('acct:waits', 'm0'));
    for (let n = 0; n < 25; n += 1) {
      await run(store, 'acct:a', n);
      await index.remember('acct', `m${n}`, { conversation: 'acct:a', fingerprint: 'f' });
    }
    await maintain({ dedupeMs: 3_600_000 }).run();
    expect(count('messages')).toBe(26);
    expect(count('message_index')).toBe(25);
    await later();
    await maintain({}).run();
    expect(count('message_index')).toBe(0);
    expect(await reader.status('acct:a', 'm24')).toBeUndefined();
    expect(await reader.status('acct:waits', 'm0')).toEqual({ state: 'queued' });
    expect(await store.append(inbound('acct:waits', 'm0'))).toEqual({ duplicate: true });
    expect(await store.append(inbound('acct:a', 'm3'))).toEqual({ duplicate: false });
    expect((await reader.history('acct:a', { limit: 100 })).items).toHaveLength(50);
  });

  it('forgets failed messages beyond the dedupe window', async () => {
    const { store, failed } = parts();
    const fail = async (n: number) => {
      await store.append(inbound('acct:a', `m${n}`));
      const { lease } = await claimed(store, 'acct:a', `r${n}`);
      await store.commit(lease, merge({ outcome: { status: 'failed', reply: { text: '' }, error: 'e' } }));
    };
    for (let n = 0; n < 25; n += 1) await fail(n);
    await maintain({ dedupeMs: 3_600_000 }).run();
    expect((await failed.list({ limit: 100 })).items).toHaveLength(25);
    await later();
    await maintain({}).run();
    expect(await failed.list({ limit: 100 })).toEqual({ items: [] });
    expect(await failed.retry('acct:a', 'm3')).toBe(false);
  });

  it('deletes histories that were reset, and no other', async () => {
    const { store, reader } = parts();
    for (let n = 0; n < 20; n += 1) await run(store, 'acct:a', n);
    for (let n = 0; n < 5; n += 1) await run(store, 'acct:b', n);
    await store.reset('acct:a');
    await run(store, 'acct:a', 100);
    expect(count('history')).toBe(52);
    await maintain({}).run();
    expect(count('history')).toBe(12);
    expect(count('garbage')).toBe(0);
    expect((await reader.history('acct:a', { limit: 100 })).items).toHaveLength(2);
    expect((await reader.history('acct:b', { limit: 100 })).items).toHaveLength(10);
  });

  it('deletes conversations that were quiet for too long, if nothing waits in them', async () => {
    const { store, reader, outbox } = parts();
    for (let n = 0; n < 25; n += 1) await run(store, `acct:${n}`, n);
    await run(store, 'acct:inbox', 1);
    await store.append(inbound('acct:inbox', 'm2'));
    await commitDeliveries(store, 'acct:outbox', 'r9', [delivery('acct:outbox', 'r9.0')]);
    await commitDeliveries(store, 'acct:parked', 'r8', [delivery('acct:parked', 'r8.0')]);
    const sending = await outbox.claim('acct:parked', LONG_MS);
    if (sending.status !== 'claimed') throw new Error(sending.status);
    await outbox.park(sending.lease, 'no');
    await later();
    await maintain({ historyTtlMs: 3_600_000 }).run();
    expect(count('conversations')).toBe(28);
    await maintain({ historyTtlMs: 1 }).run();
    const left = (await reader.list({ limit: 100 })).items.map((item) => item.id).sort();
    expect(left).toEqual(['acct:inbox', 'acct:outbox', 'acct:parked']);
    expect(count('history')).toBe(2);
    expect(await outbox.retry('r8.0')).toBe('acct:parked');

    await run(store, 'acct:3', 500);
    expect((await reader.history('acct:3', { limit: 100 })).items).toHaveLength(2);
  });

  it('never deletes a conversation before the statuses of its messages', async () => {
    const { store, reader } = parts();
    await run(store, 'acct:a', 1);
    await later();
    await maintain({ historyTtlMs: 1, dedupeMs: 3_600_000 }).run();
    expect(await reader.status('acct:a', 'm1')).toMatchObject({ state: 'done' });
    expect(await store.append(inbound('acct:a', 'm1'))).toEqual({ duplicate: true });
  });

  it('works by itself, and stops', async () => {
    const { store } = parts();
    await run(store, 'acct:a', 1);
    await later();
    maintain({ everyMs: 5 });
    await vi.waitFor(() => expect(count('messages')).toBe(0));
  });
});
