// Wires one server from its parts: storage, models, tools, channels, lanes, delivery, HTTP. main.ts calls it with the real
// ones; a test or a program of one's own may bring other tools or a storage that it watches.
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { createChannels } from '../channels/index.ts';
import { peopleOf } from '../config/people-schema.ts';
import type { Config } from '../config/schema.ts';
import { createCalibration } from './agent/index.ts';
import { checkArguments } from './agent/validate.ts';
import { createDeliver } from './delivery/deliver.ts';
import { createDrafts } from './delivery/drafts.ts';
import { filesToSend } from './delivery/files.ts';
import { createChannelMemory } from './delivery/memory.ts';
import { createApp } from './http/app.ts';
import { createAccept } from './inbox/accept.ts';
import { createCancel } from './inbox/cancel.ts';
import { createCommands } from './inbox/commands.ts';
import { isOneOf } from './inbox/ours.ts';
import { createLoopDelay, createOverload } from './inbox/overload.ts';
import { createLane } from './lane/lane.ts';
import { createRun } from './lane/run.ts';
import { createSweep } from './lane/sweep.ts';
import { createMediaStore, createMediaSweep } from './media/index.ts';
import { createModels } from './models/index.ts';
import type { Channel } from './ports/channel.ts';
import type { Logger } from './ports/log.ts';
import type { Storage } from './ports/storage.ts';
import type { Tool } from './ports/tool.ts';
import { systemClock } from './system-clock.ts';
import { createMetrics } from './telemetry/metrics.ts';
import { createToolset } from './tools/index.ts';

export type Role = 'all' | 'gateway' | 'worker';

export interface ServerOptions {
  /** The configuration in force; asked again for what may change without a restart. */
  config: () => Config;
  storage: Storage;
  /** The tools that `tools.enabled` chooses from; those of `tools.folder`, skills and MCP servers come from the settings. */
  tools: readonly Tool[];
  /** The system prompt, read for each run. */
  prompt: () => Promise<string>;
  adminToken: string;
  role: Role;
  log: Logger;
}

export interface Server {
  /** Reads again what is read at the start: the tools of `tools.folder`. */
  reload(): Promise<void>;
  /** Listens, connects the channels, starts the lanes. Resolves with the base URL and what is still missing. */
  start(): Promise<{ url: string; reasons: string[] }>;
  /** Drains: takes no more, lets runs finish up to `server.drain_seconds`, hands the rest back. Idempotent. */
  stop(): Promise<void>;
}

export async function composeServer(options: ServerOptions): Promise<Server> {
  const { config, storage, role, log } = options;
  const { store, reader, control, lanes, deliveries, outbox, events } = storage;
  const clock = systemClock;
  const startConfig = config();
  const runsLanes = role !== 'gateway';
  const runsChannels = role !== 'worker';
  let draining = false;

  const metrics = createMetrics();
  metrics.watchQueue('lanes', lanes);
  metrics.watchQueue('deliveries', deliveries);

  const mediaFolder = startConfig.media.dir || join(startConfig.storage.data_dir, 'media');
  const media = createMediaStore({
    folder: mediaFolder,
    maxBytes: startConfig.media.max_bytes,
    types: startConfig.media.types,
    denyTypes: startConfig.media.deny_types,
    now: clock.now,
  });
  const models = createModels(startConfig, {
    clock,
    log,
    retry: () => config().agent.retry,
    pictures: { media, settings: startConfig.media.pictures },
  });
  const names = new Set(models.offered().map(({ id }) => id));
  const tools = createToolset({
    settings: startConfig.tools,
    rules: () => config().tools.rules,
    isAdmin: (account, sender) => peopleOf(config().channels, account).admins.includes(sender),
    builtIn: options.tools,
    check: (tool, args) => checkArguments(tool, args, false),
    clock,
    log,
  });
  await tools.load();
  let channels = new Map<string, Channel>();
  const loopDelay = createLoopDelay();
  const overload = () => config().server.overload;
  const accept = createAccept({
    storage,
    settings: () => config().agent,
    people: (account) => peopleOf(config().channels, account),
    isOurs: (account, sender) => isOneOf(channels, account, sender),
    command: createCommands({
      storage,
      models: [...names],
      timeZone: () => config().limits.time_zone,
      clock,
      log,
    }),
    draining: () => draining,
    overload: createOverload({ lanes, settings: overload, loopDelayMs: loopDelay.ms, log }),
    maxWaiting: () => overload().conversation_messages,
    clock,
    log,
    count: metrics.message,
  });
  const drafts = createDrafts({ events, reader, channels: () => channels, clock, log });
  channels = await createChannels(runsChannels ? startConfig.channels : {}, {
    clock,
    log,
    accept: drafts.watching(accept),
    cancel: createCancel(reader, control),
    memory: (account) => createChannelMemory(storage.index, account),
    state: storage.channelState,
    leaseMs: startConfig.workers.lock_seconds * 1000,
    dataDir: startConfig.storage.data_dir,
    print: (text) => void process.stderr.write(text),
    media,
    publicUrl: startConfig.server.public_url,
  });

  const lane = createLane({
    store,
    control,
    config,
    run: createRun({
      store,
      events,
      deliveries,
      model: (name) => (name !== undefined && names.has(name) ? models.client(name) : models.main()),
      preferences: storage.preferences,
      spending: storage.spending,
      tools: tools.forRun,
      refusal: tools.refusal,
      prompt: async () => {
        const [own, skills] = await Promise.all([options.prompt(), tools.prompt()]);
        return skills === '' ? own : `${own}\n\n${skills}`;
      },
      calibration: createCalibration(),
      media,
      clock,
      onEvent: metrics.runEvent,
    }),
    newRunId: randomUUID,
    clock,
    log,
    onEnd: metrics.run,
  });
  const deliver = createDeliver({
    outbox,
    channels,
    settings: () => config().delivery,
    log,
    count: metrics.delivery,
  });

  const intervalMs = startConfig.workers.sweep_seconds * 1000;
  const sweeps = [
    ...(runsLanes ? [createSweep({ reader, kind: 'lanes', lanes, intervalMs, log })] : []),
    ...(runsChannels ? [createSweep({ reader, kind: 'outbox', lanes: deliveries, intervalMs, log })] : []),
    ...(runsChannels
      ? [
          createMediaSweep({
            folder: mediaFolder,
            ttlMs: startConfig.media.ttl_days * 86_400_000,
            wanted: () => filesToSend(outbox),
            now: clock.now,
            log,
          }),
        ]
      : []),
  ];

  const app = await createApp({
    config: startConfig,
    storage,
    accept,
    channels,
    media,
    models: models.offered(),
    tools: tools.report,
    metrics,
    log,
    adminToken: options.adminToken,
    state: { draining: () => draining, ready },
  });

  /** What keeps the server from doing its work now; empty when ready. */
  async function ready(): Promise<string[]> {
    const reasons: string[] = [];
    if (draining) reasons.push('the server is shutting down');
    await storage.check().catch((error: unknown) => {
      reasons.push(`storage: ${error instanceof Error ? error.message : String(error)}`);
    });
    for (const channel of channels.values()) {
      const { state, detail } = channel.status();
      if (state === 'failed') reasons.push(`channel ${channel.account}: ${detail ?? state}`);
    }
    return reasons;
  }

  async function start(): Promise<{ url: string; reasons: string[] }> {
    const { concurrency } = startConfig.workers;
    const url = await app.listen({ host: startConfig.server.host, port: startConfig.server.port });
    await Promise.all([
      runsLanes && lanes.work(lane.handler, { concurrency }),
      runsChannels && deliveries.work(deliver, { concurrency: startConfig.delivery.concurrency }),
    ]);
    for (const channel of channels.values()) {
      // One account that can't connect must not keep the others from starting; readyz and the console say so.
      channel.start().catch((error: unknown) => {
        log.error({ account: channel.account, error }, 'channel did not start');
      });
    }
    for (const sweep of sweeps) sweep.start();
    const reasons = await ready();
    if (runsLanes) {
      models.warm().catch((error: unknown) => {
        log.error({ error }, 'the default model cannot be used; npm run doctor says what is missing');
      });
    }
    return { url, reasons };
  }

  let stopping: Promise<void> | undefined;
  async function stop(): Promise<void> {
    draining = true;
    const graceMs = config().server.drain_seconds * 1000;
    await Promise.all(sweeps.map((sweep) => sweep.stop()));
    await Promise.all([...channels.values()].map((channel) => channel.stop()));
    await lanes.close(graceMs);
    await drafts.close();
    await deliveries.close(graceMs);
    lane.close();
    loopDelay.close();
    await tools.close();
    await app.close();
    await storage.close();
  }

  return { reload: tools.load, start, stop: () => (stopping ??= stop()) };
}
