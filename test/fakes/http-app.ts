// The HTTP side on a real store and a real accept(), with a worker whose runs a test directs by the message's text:
// "hold …" runs until release(), "fail …" ends as failed, "fail once …" the first time, "file X" sends X.csv; everything else
// is answered "You said: …".
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { createWebChannel } from '../../channels/web/index.ts';
import { createWebhookChannel } from '../../channels/webhook/index.ts';
import { peopleOf } from '../../config/people-schema.ts';
import { configSchema, type Config } from '../../config/schema.ts';
import type { RunEvent, RunEventBody } from '../../src/domain/events.ts';
import { createApp } from '../../src/http/app.ts';
import type { AppOptions } from '../../src/http/options.ts';
import { createAccept } from '../../src/inbox/accept.ts';
import { createCommands } from '../../src/inbox/commands.ts';
import { isOneOf } from '../../src/inbox/ours.ts';
import { deliveriesOf } from '../../src/lane/merge.ts';
import { createMediaStore } from '../../src/media/index.ts';
import type { Channel } from '../../src/ports/channel.ts';
import type { MediaStore } from '../../src/ports/media.ts';
import type { Storage } from '../../src/ports/storage.ts';
import { createSqliteStorage } from '../../src/storage/sqlite/index.ts';
import { systemClock } from '../../src/system-clock.ts';
import { openDoor } from './accept.ts';
import { recordingLog, type LogLine } from './log.ts';

export const ADMIN = 'the-admin-token';
export const KEY = 'the-api-key';
export const SECRET = `whsec_${Buffer.from('a secret of thirty-two bytes, ok').toString('base64')}`;

const USAGE = { input: 11, output: 7, cached: 3 };

export interface HttpApp {
  app: FastifyInstance;
  /** Listening on a free port. */
  url: string;
  storage: Storage;
  media: MediaStore;
  /** What was logged. */
  lines: LogLine[];
  /** Lets the runs that hold go on. */
  release(): void;
  /** Set to refuse as a draining server does. */
  draining: boolean;
  /** Why it isn't ready. */
  reasons: string[];
  /** Times of the clock that signatures and limits are measured by, in milliseconds; undefined: the real one. */
  now: number | undefined;
  /** How many runs there were. */
  runs: number;
  /** Conversations whose deliveries were woken. */
  woken: string[];
  close(): Promise<void>;
}

export interface HttpAppOptions {
  channels?: Config['channels'] | Record<string, unknown>;
  server?: Record<string, unknown>;
  adminToken?: string;
  wrapStorage?: (storage: Storage) => Storage;
  /** Besides those of the configuration. */
  more?: Channel[];
  tools?: AppOptions['tools'];
}

export async function startHttpApp(options: HttpAppOptions = {}): Promise<HttpApp> {
  const dir = await mkdtemp(join(tmpdir(), 'lanekeeper-http-'));
  const config = configSchema.parse({
    server: options.server ?? {},
    channels: options.channels ?? {
      webhook: { type: 'webhook', secret: SECRET, api_keys: [KEY], allow_private_callbacks: true },
    },
  });
  const { log, lines } = recordingLog();
  const publicUrl = config.server.public_url;
  const folder = join(dir, 'media');
  const media = createMediaStore({ folder, maxBytes: 4_000_000, types: ['*'], denyTypes: [], now: Date.now });
  const real = await createSqliteStorage({
    file: join(dir, 'test.db'),
    dedupeHours: 48,
    historyTtlDays: 0,
    log,
  });
  const woken: string[] = [];
  const watched: Storage = {
    ...real,
    deliveries: { ...real.deliveries, wake: async (conversation) => void woken.push(conversation) },
  };
  const storage = options.wrapStorage?.(watched) ?? watched;
  let release = Promise.withResolvers<void>();
  const channels = new Map<string, Channel>();
  for (const [account, settings] of Object.entries(config.channels)) {
    if (settings.type === 'webhook' && settings.enabled)
      channels.set(account, createWebhookChannel({ account, settings, clock: systemClock, log, publicUrl }));
    if (settings.type === 'web' && settings.enabled) channels.set(account, createWebChannel({ account }));
  }

  for (const channel of options.more ?? []) channels.set(channel.account, channel);

  const harness: Omit<HttpApp, 'app' | 'url'> = {
    storage,
    media,
    lines,
    release() {
      release.resolve();
      release = Promise.withResolvers();
    },
    draining: false,
    reasons: [],
    now: undefined,
    runs: 0,
    woken,
    close,
  };

  const accept = createAccept({
    storage,
    settings: () => config.agent,
    people: (account) => peopleOf(config.channels, account),
    isOurs: (account, sender) => isOneOf(channels, account, sender),
    command: createCommands({
      storage,
      models: ['demo'],
      timeZone: () => config.limits.time_zone,
      clock: systemClock,
      log,
    }),
    draining: () => false,
    overload: openDoor,
    maxWaiting: () => 0,
    clock: systemClock,
    log,
    count: () => {},
  });
  const appOptions: AppOptions = {
    config,
    storage,
    accept,
    channels,
    media,
    models: [{ id: 'demo' }],
    ...(options.tools ? { tools: options.tools } : {}),
    metrics: { contentType: 'text/plain; version=0.0.4', render: async () => 'up 1\n' },
    log,
    adminToken: options.adminToken ?? ADMIN,
    state: { draining: () => harness.draining, ready: async () => harness.reasons },
    clock: { now: () => harness.now ?? Date.now() },
  };
  const app = await createApp(appOptions);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });

  /** Ids of messages that were run before. */
  const ranBefore = new Set<string>();

  async function run(conversation: string, signal: AbortSignal): Promise<'more' | 'idle'> {
    const claim = await real.store.claim(conversation, { run: randomUUID(), leaseMs: 60_000, limit: 20 });
    if (claim.status !== 'claimed') return 'idle';
    harness.runs += 1;
    const { lease, snapshot } = claim;
    const taken = [...snapshot.inbox];
    const publish = (...events: RunEventBody[]) =>
      real.events.publish(
        conversation,
        events.map((event): RunEvent => Object.assign({ conversation, run: lease.run, turn: 1 }, event)),
      );
    await publish({ type: 'agent_start', messages: taken.map(({ id }) => id) });
    await publish({ type: 'message_start', role: 'assistant' }, { type: 'message_update', delta: 'You ' });
    let cancelled = false;
    if (taken.some(({ text }) => text.startsWith('hold'))) {
      const stopped = Promise.withResolvers<void>();
      const unsubscribe = real.control.onSignal((event) => {
        if (event.type !== 'cancel' || event.conversation !== conversation) return;
        cancelled = true;
        stopped.resolve();
      });
      signal.addEventListener('abort', () => stopped.resolve());
      await Promise.race([release.promise, stopped.promise]);
      unsubscribe();
      const joined = (await real.store.drain(lease, 20)) ?? [];
      taken.push(...joined);
      if (joined.length > 0) await publish({ type: 'steered', messages: joined.map(({ id }) => id) });
    }
    const failed = taken.some(
      ({ id, text }) => text.startsWith('fail') && !(text.startsWith('fail once') && ranBefore.has(id)),
    );
    for (const { id } of taken) ranBefore.add(id);
    const text = failed
      ? 'Sorry, that failed.'
      : `You said: ${taken.map((message) => message.text).join(' | ')}`;
    const status = failed ? ('failed' as const) : ('done' as const);
    await publish({ type: 'message_update', delta: text.slice('You '.length) });
    const files = taken.filter((message) => message.text.startsWith('file'));
    const attachments = await Promise.all(
      files.map(async ({ text: name }) => {
        const kept = await media.put({
          bytes: Buffer.from('a,b'),
          name: `${name.slice('file '.length)}.csv`,
        });
        return Object.assign(kept, { type: 'file' as const });
      }),
    );
    const reply = {
      text: cancelled ? 'Cancelled.' : text,
      ...(attachments.length > 0 ? { attachments } : {}),
    };
    const outcome = { status, reply, ...(failed ? { error: 'model_failed: no route' } : {}) };
    const committed = await real.store.commit(lease, {
      entries: taken.map((message) => ({
        role: 'user' as const,
        content: [{ type: 'text' as const, text: message.text }],
        at: message.at,
        run: lease.run,
        id: message.id,
      })),
      deliveries: deliveriesOf(lease.run, taken, outcome, Date.now()),
      outcome,
    });
    await publish({
      type: 'agent_end',
      status,
      reply: reply.text,
      ...(attachments.length > 0 ? { attachments } : {}),
      stop: cancelled ? 'aborted' : 'stop',
      usage: USAGE,
      turns: 1,
    });
    return committed && committed.more ? 'more' : 'idle';
  }
  await real.lanes.work(run, { concurrency: 10 });

  async function close(): Promise<void> {
    harness.release();
    await app.close();
    await real.lanes.close(0);
    await real.close();
    await rm(dir, { recursive: true, force: true });
  }

  return Object.assign(harness, { app, url });
}
