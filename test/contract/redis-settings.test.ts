// storage.url in all its forms, and what the operator is told of Redis' settings, on every server.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { diagnose } from '../../src/doctor/index.ts';
import type { Logger } from '../../src/ports/log.ts';
import { parseAddress } from '../../src/storage/redis/address.ts';
import { createRedisStorage } from '../../src/storage/redis/index.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { startRedisSentinels, type RedisSentinels } from '../fakes/redis-sentinel.ts';
import { inbound } from './suites/support.ts';

describe('storage.url', () => {
  it.each([
    ['redis://h', { kind: 'single', nodes: [{ host: 'h', port: 6379 }], database: 0, tls: false }],
    ['rediss://u:p@h:1/2?family=6', { nodes: [{ host: 'h', port: 1 }], database: 2, tls: true, family: 6 }],
    ['redis://:p%40%2F@[::1]:7', { nodes: [{ host: '::1', port: 7 }], credentials: { password: 'p@/' } }],
    ['redis://', { nodes: [{ host: 'localhost', port: 6379 }], credentials: {} }],
    [
      'redis-cluster://u:p@a,b:7001',
      {
        kind: 'cluster',
        nodes: [
          { host: 'a', port: 6379 },
          { host: 'b', port: 7001 },
        ],
        text: 'a:6379,b:7001',
      },
    ],
    ['rediss-cluster://a/0', { kind: 'cluster', tls: true }],
    [
      'redis-sentinel://u:p@a,b:1/name/3?sentinel_username=su&sentinel_password=sp',
      {
        kind: 'sentinel',
        nodes: [
          { host: 'a', port: 26379 },
          { host: 'b', port: 1 },
        ],
        primary: 'name',
        database: 3,
        credentials: { username: 'u', password: 'p' },
        sentinelCredentials: { username: 'su', password: 'sp' },
      },
    ],
  ])('%s', (url, expected) => {
    expect(parseAddress(url)).toMatchObject(expected);
  });

  it.each([
    ['http://u:secret@h', /must look like redis:/],
    ['secret', /must look like redis:/],
    ['redis://:secret@a,b', /several hosts: write redis-cluster/],
    ['redis://:secret@h/x', /number of a database/],
    ['redis://:sec/ret@h', /in a password write/],
    ['redis://secret@h', /user but no password/],
    ['redis://:secret%@h', /% that is not part/],
    ['redis://:secret@h:99999', /host:port/],
    ['redis://:secret@h?x=1', /no parameters but family/],
    ['redis://:secret@h?family=5', /neither 4 nor 6/],
    ['redis-cluster://:secret@a/1', /only number 0/],
    ['redis-cluster://:secret@a,,b', /host:port/],
    ['redis-sentinel://:secret@a', /name that the sentinels give the primary/],
  ])('%s is refused with what to write, and without its secrets', (url, reason) => {
    try {
      parseAddress(url);
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ code: 'config_invalid', message: expect.stringMatching(reason) });
      expect(String(error)).not.toMatch(/sec.?ret/);
    }
  });
});

describe('settings of Redis', () => {
  let redis: RedisSentinels;
  beforeAll(async () => {
    redis = await startRedisSentinels({ args: ['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru'] });
  });
  afterAll(() => redis.close());
  const { track } = useCleanups();
  const open = async (url: string) => {
    const warnings: string[] = [];
    const log: Logger = {
      debug() {},
      info() {},
      warn: (_fields, text) => void warnings.push(text),
      error() {},
      child: () => log,
    };
    return { storage: track(await createRedisStorage({ url, log, timeoutMs: 1_000 })), warnings };
  };

  it('are warned of, with the name of each server that has them', async () => {
    const { storage, warnings } = await open(redis.url);
    await storage.check();
    await storage.check();
    const [primary, replica] = [redis.primary, redis.replica].map(({ port }) => `127.0.0.1:${port}`);
    expect(warnings.sort()).toEqual([
      expect.stringMatching(`appendonly to yes.*\\(${primary}, ${replica}\\)$`),
      expect.stringMatching(`allkeys-lru.*noeviction \\(${primary}, ${replica}\\)$`),
      expect.stringMatching(`min-replicas-to-write to 1 \\(${primary}\\)$`),
    ]);
  });

  it('are in what the doctor finds', async () => {
    const findings = [];
    for await (const finding of diagnose({ env: { REDIS_URL: redis.url, PORT: '0' } })) {
      if (finding.part === 'storage') findings.push(finding);
    }
    expect(findings.map(({ state }) => state)).toEqual(['ok', 'note', 'note', 'note']);
    expect(JSON.stringify(findings)).toMatch(/noeviction.*min-replicas-to-write/s);
  });

  it('and a name that no sentinel knows is told', async () => {
    const { storage } = await open(redis.url.replace('/mymaster', '/other'));
    await expect(storage.store.append(inbound('web:a', 'm1'))).rejects.toThrow(
      'No such master with that name',
    );
  });
});
