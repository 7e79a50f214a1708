// Redis Cluster runs a script only if all its keys are in one slot, and only keys that the caller names may be touched.
// The server here is a cluster of one node, which refuses the first; for the second, a MONITOR connection sees what every
// script of the storage is called with and what it touches.
import { readdir } from 'node:fs/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { conversationKeys, idOf, nameOf, shardOf, SHARDS } from '../../src/storage/redis/keys.ts';
import { loadScripts } from '../../src/storage/redis/scripts.ts';
import { silentLog } from '../fakes/log.ts';
import { startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { claimed, delivery, inbound, LONG_MS, merge, ODD_NAMES, update } from './suites/support.ts';

interface Call {
  keys: string[];
  touched: string[];
}

/** CRC16 (XMODEM) of what stands in the first braces, if something does. Redis Cluster specification, key distribution. */
function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1)
      crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc % 16384;
}

/** The keys of a command: the scripts use none that names keys in other places. */
function keysOf([command = '', ...args]: string[]): string[] {
  const name = command.toUpperCase();
  if (name === 'TIME' || name === 'PUBLISH') return [];
  return name === 'DEL' ? args : args.slice(0, 1);
}

describe('the scripts of the Redis storage', () => {
  let server: RedisServer;
  let admin: Redis;
  let storage: Storage;

  beforeAll(async () => {
    server = await startRedis({ cluster: true });
    admin = new Redis(server.url);
    storage = await createRedisStorage({ url: server.url, log: silentLog, historyTtlDays: 1, maxEvents: 10 });
  });
  afterAll(async () => {
    await storage.close();
    admin.disconnect();
    await server.close();
  });

  /** Calls every script in each of its ways. */
  async function useEverything(conversation: string): Promise<void> {
    const { store, reader, outbox, index, events, control } = storage;
    const options = { run: 'r9', leaseMs: LONG_MS, limit: 20 };
    await store.claim(conversation, options);
    await index.remember('acct', 'm1', { conversation, fingerprint: 'f' });
    await index.remember('acct', 'm1', { conversation, fingerprint: 'f' });
    await store.append(inbound(conversation, 'm1'));
    await store.append(inbound(conversation, 'm1'));
    const first = await claimed(store, conversation, 'r1');
    await store.claim(conversation, options);
    await store.append(inbound(conversation, 'm2'));
    await store.drain(first.lease, 5);
    await store.journal(first.lease, [{ v: 1, kind: 'tool_start', call_id: 'c' }]);
    await store.renew(first.lease, LONG_MS);
    await control.cancel(conversation);
    await store.release(first.lease);
    const second = await claimed(store, conversation, 'r2');
    await store.append(inbound(conversation, 'm3'));
    const deliveries = ['r1.0', 'r1.1', 'r1.2'].map((id) => delivery(conversation, id));
    const usage = { input: 1, output: 1, cached: 1 };
    const context = { from: 1, summary: 's' };
    await store.commit(second.lease, merge({ deliveries, usage, context }));
    await store.commit(second.lease, merge());
    const third = await claimed(store, conversation, 'r3');
    await store.reset(conversation);
    await store.commit(
      third.lease,
      merge({ outcome: { status: 'failed', reply: { text: '' }, error: 'e' } }),
    );
    await storage.failed.retry(conversation, 'm3');
    await storage.failed.retry(conversation, 'm3');

    await reader.history(conversation, { limit: 5 });
    await reader.state(conversation);
    await reader.status(conversation, 'm1');
    for (const end of ['retryLater', 'park', 'settle', 'settle'] as const) {
      const claim = await outbox.claim(conversation, LONG_MS);
      if (claim.status !== 'claimed') throw new Error(claim.status);
      if (end === 'retryLater') await outbox.retryLater(claim.lease, 0, 'no');
      else await outbox[end](claim.lease, 'no');
    }
    await outbox.claim(conversation, LONG_MS);
    await outbox.retry('r1.0');
    await outbox.add(delivery(conversation, 'r9.0'));

    const { notes, people, preferences, spending, channelState } = storage;
    await notes.add(conversation, { id: 'n1', at: 1, sender: { id: 'u' }, text: '' }, 5);
    await notes.remove(conversation, ['n1']);
    await people.ask({ code: conversation, account: 'acct', person: conversation });
    await people.approve(conversation, 'boss');
    await people.remove(conversation);
    await channelState(conversation).lease('g1', LONG_MS);
    await channelState(conversation).release('g1');
    await preferences.set(conversation, { model: 'm' });
    await preferences.get(conversation);
    await spending.add('2026-11-30', [conversation], usage);

    const start = { ...update(conversation, ''), type: 'agent_start' as const, messages: [] };
    for (let n = 0; n < 4; n += 1)
      await events.publish(conversation, [start, ...Array.from({ length: 9 }, () => start)]);
    const { run } = await events.position(conversation);
    await (
      await events.subscribe(conversation, { after: run, signal: new AbortController().signal })
    ).close();
  }

  it('name all they touch, in one slot, whatever the conversation is called', async () => {
    const files = (await readdir(new URL('../../src/storage/redis/scripts/', import.meta.url))).map((file) =>
      file.replace('.lua', ''),
    );
    const names = new Map<string, string>();
    await loadScripts((name, sha) => names.set(sha, name));
    expect([...names.values()].sort()).toEqual(files.sort());

    const calls = new Map<string, Call[]>();
    let current: Call | undefined;
    const monitor = await admin.monitor();
    const marker = Promise.withResolvers<void>();
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      const [command = '', script = '', count = '', ...rest] = args;
      if (source === 'lua') current?.touched.push(...keysOf(args));
      else if (/^evalsha$/i.test(command)) {
        current = { keys: rest.slice(0, Number(count)), touched: [] };
        const name = names.get(script);
        if (name !== undefined) calls.set(name, [...(calls.get(name) ?? []), current]);
      } else {
        current = undefined;
        if (/^echo$/i.test(command)) marker.resolve();
      }
    });
    // MONITOR escapes what is not ASCII, in names of keys and in arguments alike.
    const conversations = ODD_NAMES.filter((name) => name !== '').map((name) => `acct:${name}`);
    // Twice: at first the scripts are loaded by EVAL.
    for (const conversation of ['acct:first', ...conversations]) await useEverything(conversation);
    await admin.echo('the end');
    await marker.promise;
    monitor.disconnect();

    expect([...calls.keys()].sort()).toEqual(files.sort());
    for (const [name, of] of calls) {
      expect(of.length, name).toBeGreaterThanOrEqual(conversations.length);
      for (const { keys, touched } of of) {
        expect(new Set(keys.map(slotOf)).size, `${name}: ${keys.join(' ')}`).toBe(1);
        expect(keys, name).toEqual(expect.arrayContaining(touched));
      }
      expect(
        of.some(({ touched }) => touched.length > 0),
        `${name} touches nothing`,
      ).toBe(true);
    }
  });

  it('say in a header what they do, with which keys and arguments, and what they return', async () => {
    await loadScripts((name, _sha, source) => {
      expect(source, name).toMatch(/^--\[\[\n {2}\S.*\n(.*\n)* {2}KEYS {2}1 /);
      expect(source, name).toMatch(/\n {2}Returns /);
      const [header = '', body = ''] = source.split(']]\n', 2);
      for (const kind of ['KEYS', 'ARGV']) {
        const used = [...body.matchAll(new RegExp(`${kind}\\[(\\d+)\\]`, 'g'))].map((match) =>
          Number(match[1]),
        );
        const named = header.slice(header.indexOf(`  ${kind} `));
        for (const n of used)
          expect(named, `${name}: ${kind}[${n}]`).toMatch(new RegExp(`(^|\\s)${n}(\\.\\.\\.)? `));
      }
    });
  });

  it('put the keys of a conversation into the slot that the cluster itself would', async () => {
    for (const name of ODD_NAMES) {
      const { name: _, ...keys } = conversationKeys(name);
      const slots = await Promise.all(Object.values(keys).map((key) => admin.cluster('KEYSLOT', key)));
      expect(new Set(slots).size).toBe(1);
      expect(slots[0]).toBe(slotOf(keys.meta));
    }
  });

  it('keep different conversations in different keys, and spread them', () => {
    const odd = [...ODD_NAMES, 'a\ud800', 'a\udfff', 'a\ufffd', 'a%d800;', '%25;', '%'];
    expect(new Set(odd.map((name) => Buffer.from(conversationKeys(name).meta).toString('hex'))).size).toBe(
      odd.length,
    );
    for (const name of odd) expect(idOf(nameOf(name))).toBe(name);
    const counts = new Map<number, number>();
    for (let n = 0; n < 6_400; n += 1) {
      const shard = shardOf(`web:${n}`);
      counts.set(shard, (counts.get(shard) ?? 0) + 1);
    }
    expect(counts.size).toBe(SHARDS);
    expect(Math.max(...counts.values())).toBeLessThan(200);
  });
});
