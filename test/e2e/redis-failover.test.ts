// The primary dies while messages flow, and its replica is promoted: by Sentinels, or by a Redis Cluster. The server goes on
// by itself, and what was acknowledged and replicated before is answered once.
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, test, vi } from 'vitest';
import { startCallbackReceiver } from '../fakes/callback-receiver.ts';
import { startModelServer } from '../fakes/model-server.ts';
import { startRedisCluster } from '../fakes/redis-cluster.ts';
import { startRedisSentinels } from '../fakes/redis-sentinel.ts';
import type { RedisServer } from '../fakes/redis-server.ts';
import { ADMIN_TOKEN, startServer, withModel } from '../fakes/server.ts';
import { API_KEY, createWebhookClient, readConversation } from '../fakes/webhook-client.ts';

interface Watched {
  url: string;
  primary: RedisServer;
  replica: RedisServer;
  close(): Promise<void>;
}

const topologies: Record<string, () => Promise<Watched>> = {
  Sentinel: () => startRedisSentinels(),
  // The master that has the queues, and a third of the conversations.
  Cluster: async () => {
    const cluster = await startRedisCluster({ replicaOf: '{lk}', nodeTimeoutMs: 1_500 });
    return { url: cluster.url, ...cluster.pair(), close: () => cluster.close() };
  },
};
const CONVERSATIONS = Array.from({ length: 8 }, (_, n) => `chat${n}`);
/** A Sentinel that was held up for two seconds, as on a busy machine, does nothing for thirty. */
const PATIENCE = { timeout: 100_000, interval: 50 };

// Side by side: most of the time goes by in waiting for the election.
test.concurrent.each(Object.keys(topologies))(
  '%s: a replica is promoted while messages flow; nothing replicated is lost or answered twice',
  async (name) => {
    const cleanups: (() => unknown)[] = [];
    let printed: string[] = [];
    const track = <T extends { close(): Promise<unknown> }>(thing: T): T => {
      cleanups.push(() => thing.close());
      return thing;
    };
    try {
      const [redis, model, receiver] = await Promise.all([
        topologies[name]!().then(track),
        startModelServer().then(track),
        startCallbackReceiver().then(track),
      ]);
      const config = withModel(model.openaiUrl, {
        channels: { webhook: { type: 'webhook', api_keys: [API_KEY], allow_private_callbacks: true } },
        agent: { on_busy: { direct: 'followup' } },
        workers: { lock_seconds: 2, sweep_seconds: 1 },
        delivery: { timeout_ms: 2_000 },
      });
      const server = track(await startServer({ config, redisUrl: redis.url }));
      printed = server.lines;
      const client = createWebhookClient(() => server.url);

      let phase: 'before' | 'replicating' | 'dead' | 'after' = 'before';
      const acknowledged = {
        before: new Set<string>(),
        replicating: new Set<string>(),
        after: new Set<string>(),
      };
      const refusals: string[] = [];
      const sending = new AbortController();
      const senders = CONVERSATIONS.map(async (conversation) => {
        for (let n = 0; !sending.signal.aborted; n += 1) {
          const id = `${conversation}.${n}`;
          // As a platform does: the same message until it is acknowledged.
          for (;;) {
            const sentIn = phase;
            const response = await client.post(id, {
              conversation,
              id,
              body: { callback_url: receiver.url },
            });
            if (response.status === 202) {
              acknowledged[sentIn === 'dead' ? 'after' : sentIn].add(id);
              break;
            }
            refusals.push(`${response.status} retry-after ${response.headers.get('retry-after')}`);
            await delay(Number(response.headers.get('retry-after') ?? 0) * 1_000);
          }
        }
      });

      await vi.waitFor(() => expect(acknowledged.before.size).toBeGreaterThan(24), PATIENCE);
      phase = 'replicating';
      await replicated(redis);
      await vi.waitFor(() => expect(acknowledged.replicating.size).toBeGreaterThan(8), PATIENCE);
      await redis.primary.stop('SIGKILL');
      phase = 'dead';
      await vi.waitFor(async () => expect(await roleOf(redis.replica)).toBe('master'), PATIENCE);
      phase = 'after';
      const enough = acknowledged.after.size + 24;
      await vi.waitFor(() => expect(acknowledged.after.size).toBeGreaterThan(enough), PATIENCE);
      sending.abort();
      await Promise.all(senders);

      // Refused while nobody could make them durable, never with anything else.
      expect(new Set(refusals).size, refusals.join('\n')).toBe(1);
      expect(refusals[0]).toMatch(/^503 retry-after \d+$/);
      const histories = new Map<string, string[]>();
      let lost = 0;
      for (const conversation of CONVERSATIONS) {
        const sent = [...acknowledged.before, ...acknowledged.replicating, ...acknowledged.after].filter(
          (id) => id.startsWith(`${conversation}.`),
        );
        const mayBeLost = (id: string) => acknowledged.replicating.has(id);
        const read = async () => {
          const state = await readConversation(server.url, `webhook:${conversation}`, ADMIN_TOKEN);
          const texts = state.messages.map(
            ({ role, content }) => `${role} ${content.map(({ text }) => text).join('')}`,
          );
          return {
            pending: state.pending,
            running: state.run,
            asked: texts.filter((text) => text.startsWith('user ')),
          };
        };
        await vi.waitFor(
          async () => expect(await read()).toMatchObject({ pending: 0, running: undefined }),
          PATIENCE,
        );
        const asked = (await read()).asked.map((text) => text.slice('user '.length));
        histories.set(conversation, asked);
        const kept = sent.filter((id) => asked.includes(id) || !mayBeLost(id));
        lost += sent.length - kept.length;
        expect(asked).toEqual(kept);
      }
      // Called back once for each, by its id.
      const answered = new Map<string, Set<string>>();
      await vi.waitFor(() => {
        for (const { body, headers } of receiver.received) {
          const id = String(body['id']);
          answered.set(id, (answered.get(id) ?? new Set()).add(String(headers['webhook-id'])));
        }
        for (const id of [...acknowledged.before, ...acknowledged.after])
          expect(answered.get(id)?.size, id).toBe(1);
      }, PATIENCE);
      console.info(
        `${name}: ${acknowledged.before.size} acknowledged and replicated, ${acknowledged.after.size} acknowledged after ` +
          `the primary died: all answered once; of ${acknowledged.replicating.size} acknowledged in between ${lost} lost; ` +
          `${refusals.length} refused with 503`,
      );
      expect(server.child.exitCode).toBeNull();
    } catch (error) {
      console.error(printed.slice(-60).join('\n'));
      throw error;
    } finally {
      for (const cleanup of cleanups.toReversed()) await cleanup();
    }
  },
  240_000,
);

/** Resolves when the replica has what the primary had when this was called. */
async function replicated({ primary, replica }: Watched): Promise<void> {
  const [from, to] = [new Redis(primary.url), new Redis(replica.url)];
  const offset = async (client: Redis, field: string) =>
    Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(await client.info('replication'))?.[1]);
  try {
    const wanted = await offset(from, 'master_repl_offset');
    await vi.waitFor(
      async () => expect(await offset(to, 'slave_repl_offset')).toBeGreaterThanOrEqual(wanted),
      PATIENCE,
    );
  } finally {
    from.disconnect();
    to.disconnect();
  }
}

async function roleOf(server: RedisServer): Promise<string | undefined> {
  const client = new Redis(server.url);
  // A replica that is promoted hangs up on everybody; the command is sent again.
  client.on('error', () => client.status);
  try {
    return /^role:(\S+)/m.exec(await client.info('replication'))?.[1];
  } finally {
    client.disconnect();
  }
}
