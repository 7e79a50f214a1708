// TLS with certificates on both sides, a user with few rights, a database of its own; and no password in what is shown.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Logger } from '../../src/ports/log.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { createRedisStorage, type RedisStorageOptions } from '../../src/storage/redis/index.ts';
import { useCleanups } from '../fakes/cleanups.ts';
import { freePort, startRedis, type RedisServer } from '../fakes/redis-server.ts';
import { closeStorage } from '../fakes/storage.ts';
import { claimed, commitDeliveries, delivery, inbound, LONG_MS, update } from './suites/support.ts';

/** Without it there is nothing to make certificates with. */
const OPENSSL = spawnSync('openssl', ['version']).status === 0;
const PASSWORD = 'p@ss/w%rd#1';
/** As docs/operator.md gives them. */
const RIGHTS = /^user lanekeeper on >PASSWORD (.+)$/m.exec(
  readFileSync(new URL('../../docs/operator.md', import.meta.url), 'utf8'),
)?.[1];

let dir: string;
let server: RedisServer;
let port: number;
const pem = (name: string) => readFileSync(join(dir, name), 'utf8');
const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: dir, stdio: 'pipe' });

function makeCertificate(name: string, signer?: string): void {
  writeFileSync(join(dir, `${name}.ext`), 'subjectAltName=IP:127.0.0.1\n');
  const key = [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-keyout',
    `${name}.key`,
  ];
  if (signer === undefined) {
    openssl('req', '-x509', ...key, '-out', `${name}.crt`, '-subj', `/CN=${name}`, '-days', '2');
    return;
  }
  openssl('req', '-new', ...key, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
  const by = ['-CA', `${signer}.crt`, '-CAkey', `${signer}.key`, '-CAcreateserial'];
  openssl(
    'x509',
    '-req',
    '-in',
    `${name}.csr`,
    ...by,
    '-out',
    `${name}.crt`,
    '-days',
    '2',
    '-extfile',
    `${name}.ext`,
  );
}

beforeAll(async () => {
  if (!OPENSSL) return;
  dir = mkdtempSync(join(tmpdir(), 'lanekeeper-tls-'));
  makeCertificate('ca');
  makeCertificate('server', 'ca');
  makeCertificate('client', 'ca');
  port = await freePort();
  const file = (name: string) => join(dir, name);
  server = await startRedis({
    args: ['--port', '0', '--tls-port', `${port}`, '--tls-ca-cert-file', file('ca.crt')]
      .concat(['--tls-cert-file', file('server.crt'), '--tls-key-file', file('server.key')])
      .concat(['--user', 'lanekeeper', 'on', `>${PASSWORD}`, ...(RIGHTS ?? '').split(' ')])
      .concat(['--user', 'default', 'on', '>other', '~*', '&*', '+@all']),
  });
});
afterAll(async () => {
  if (!OPENSSL) return;
  await server.close();
  await rm(dir, { recursive: true, force: true });
});

const { later } = useCleanups();
const lines: string[] = [];
const at = (level: string) => (fields: Record<string, unknown>, message: string) =>
  void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
const log: Logger = {
  debug: at('debug'),
  info: at('info'),
  warn: at('warn'),
  error: at('error'),
  child: () => log,
};

async function open(options: Partial<RedisStorageOptions> = {}): Promise<Storage> {
  const storage = await createRedisStorage({
    url: `rediss://lanekeeper:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}/3`,
    tls: { ca: pem('ca.crt'), cert: pem('client.crt'), key: pem('client.key') },
    log,
    timeoutMs: 1_000,
    ...options,
  });
  later(() => closeStorage(storage));
  return storage;
}

it.skipIf(!OPENSSL)(
  'everything works over TLS, with the rights that the guide names, in database 3',
  async () => {
    const storage = await open();
    await storage.check();
    const { store, outbox, events, control, lanes, preferences, people, spending } = storage;
    const seen: string[] = [];
    await lanes.work(
      async (conversation) => {
        seen.push(conversation);
        return seen.length === 1 ? { retryInMs: 10 } : 'idle';
      },
      { concurrency: 2 },
    );
    const subscription = await events.subscribe('web:a', { signal: new AbortController().signal });
    await store.append(inbound('web:a', 'm1'));
    await lanes.wake('web:a');
    await vi.waitFor(() => expect(seen).toEqual(['web:a', 'web:a']));
    await claimed(store, 'web:a', 'r1');
    await control.cancel('web:a');
    await events.publish('web:a', [update('web:a', 'x')]);
    for await (const logged of subscription) {
      expect(logged).toMatchObject({ event: { delta: 'x' } });
      break;
    }
    await commitDeliveries(store, 'web:b', 'r2', [delivery('web:b', 'r2.0')]);
    const sending = await outbox.claim('web:b', LONG_MS);
    if (sending.status !== 'claimed') throw new Error(sending.status);
    await outbox.settle(sending.lease);
    await preferences.set('web:a', { model: 'm' });
    await people.ask({ code: 'c', account: 'web', person: 'p' });
    await spending.add('2026-01-01', ['web:a'], { input: 1, output: 1, cached: 0 });
    expect(await lanes.depth()).toEqual({ waiting: 0, active: 0, delayed: 0 });
    expect(lines.filter((line) => /^(warn|error)/.test(line))).toEqual([]);

    const admin = new Redis({
      host: '127.0.0.1',
      port,
      password: 'other',
      tls: { ca: pem('ca.crt'), cert: pem('client.crt'), key: pem('client.key') },
    });
    later(() => admin.disconnect());
    expect(await admin.info('keyspace')).toMatch(/^db3:/m);
    expect(await admin.dbsize()).toBe(0);
  },
);

it.skipIf(!OPENSSL)(
  'says what is wrong with a certificate or a password, and shows no password',
  async () => {
    const url = `rediss://lanekeeper:wrong-${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}/3`;
    const cases: [Partial<RedisStorageOptions>, RegExp][] = [
      [{ tls: { cert: pem('client.crt'), key: pem('client.key') } }, /certificate/],
      [{ tls: { ca: pem('ca.crt') } }, /cannot be used/],
      [{ url }, /WRONGPASS/],
      [{ url: url.replace('rediss', 'rediss-cluster').replace('/3', '') }, /WRONGPASS/],
      [
        {
          url: url
            .replace('rediss', 'rediss-sentinel')
            .replace('/3', '/mymaster?sentinel_password=p%40ss%2Fx'),
        },
        /./,
      ],
    ];
    const storages = await Promise.all(cases.map(([options]) => open(options)));
    for (const [n, storage] of storages.entries()) {
      const error: unknown = await storage.store
        .append(inbound('web:a', 'm1'))
        .catch((reason: unknown) => reason);
      expect(error).toMatchObject({
        code: 'storage_unavailable',
        message: expect.stringMatching(cases[n]![1]),
      });
      lines.push(JSON.stringify(error, Object.getOwnPropertyNames(error)));
    }
    const shown = lines.join('\n');
    expect(shown).toContain('WRONGPASS');
    for (const secret of [PASSWORD, encodeURIComponent(PASSWORD), 'p@ss', 'p%40ss', 'PRIVATE KEY']) {
      expect(shown).not.toContain(secret);
    }
  },
);
