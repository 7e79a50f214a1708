// Storage, a model and a server for the tests of a `describe`. The server is killed where a test says, and started again on
// the same data for whoever asks next.
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Cleanups } from './cleanups.ts';
import type { FaultOrder, FaultPoint } from './fault-points.ts';
import { startModelServer, type ModelServer } from './model-server.ts';
import { startRedis, type RedisServer } from './redis-server.ts';
import { startServer, withModel, type ServerProcess } from './server.ts';

export interface SystemOptions {
  backend: 'sqlite' | 'redis';
  /** Beside the model: what makes a kill harmless within seconds is set already. */
  config: Record<string, unknown>;
  /** Resolves when a server that is ready can be used. */
  up?(server: ServerProcess): Promise<unknown>;
}

export interface System {
  model: ModelServer;
  /** undefined: on SQLite. */
  redis: RedisServer | undefined;
  dataDir: string;
  /** All that were started, the newest last. */
  servers: ServerProcess[];
  /** The newest that runs; if none does, it is started. */
  server(): Promise<ServerProcess>;
  /** Starts one more. */
  start(): Promise<ServerProcess>;
  /** The server, which kills itself when it reaches this point from now on. */
  killedAt(point: FaultPoint): Promise<ServerProcess>;
}

export async function startSystem(
  { later, track }: Cleanups,
  { backend, config, up }: SystemOptions,
): Promise<System> {
  const model = track(await startModelServer());
  const redis = backend === 'redis' ? track(await startRedis()) : undefined;
  const dataDir = await mkdtemp(join(tmpdir(), 'lanekeeper-system-'));
  later(() => rm(dataDir, { recursive: true, force: true }));
  const servers: ServerProcess[] = [];

  async function start(): Promise<ServerProcess> {
    const server = track(
      await startServer({
        config: withModel(model.openaiUrl, {
          agent: { retry: { attempts: 0 } },
          workers: { lock_seconds: 2, sweep_seconds: 1 },
          ...config,
        }),
        dataDir,
        entry: join(import.meta.dirname, 'fault-server.ts'),
        ipc: true,
        ...(redis ? { redisUrl: redis.url } : {}),
      }),
    );
    servers.push(server);
    await up?.(server);
    return server;
  }

  const server = async () =>
    servers.findLast(({ child }) => child.exitCode === null && child.signalCode === null) ?? start();

  return {
    model,
    redis,
    dataDir,
    servers,
    server,
    start,
    async killedAt(point) {
      const doomed = await server();
      const armed = once(doomed.child, 'message');
      doomed.child.send({ arm: { point, nth: 1, action: 'kill' } } satisfies FaultOrder);
      await armed;
      return doomed;
    },
  };
}
