// The connections to Redis: one for commands, one for pub/sub, two more for each queue that works. With Redis away a
// command rejects within about `timeoutMs` instead of hanging, connecting goes on in the background, and whatever was
// in flight when a connection broke rejects at once: its outcome is unknown, and every operation is safe to repeat.
import { Redis, type RedisOptions } from 'ioredis';
import { AppError } from '../../domain/errors.ts';
import type { Logger } from '../../ports/log.ts';
import { createReporter, reasonOf } from './reporter.ts';

export interface ConnectionOptions {
  url: string;
  log: Logger;
  timeoutMs: number;
}

export interface Connections {
  /** Host and port, without credentials: safe to show. */
  address: string;
  commands: Redis;
  subscriber: Redis;
  /** False while Redis is away: best-effort writers don't wait for it. */
  ready(): boolean;
  /** Runs commands on `commands`, bounded in time. Rejects only with AppError 'storage_unavailable'. */
  call<T>(send: (client: Redis) => Promise<T>): Promise<T>;
  /** The same on the pub/sub connection. */
  callSubscriber<T>(send: (client: Redis) => Promise<T>): Promise<T>;
  /** Connections for a BullMQ worker: their commands wait for Redis to return. The caller ends them. */
  openWorker(name: string): WorkerConnections;
  close(): Promise<void>;
}

interface WorkerConnections {
  client: Redis;
  /** Ends it and the copy that BullMQ made for its blocking command, at once. */
  cut(): Promise<void>;
}

/** A call that waits in a busy but answering connection may take this many times as long. */
const BUSY_FACTOR = 5;

export function createConnections({ url, log, timeoutMs }: ConnectionOptions): Connections {
  const address = addressOf(url);
  const report = (client: Redis, name: string): Redis => {
    const reporter = createReporter(
      log,
      { connection: name, address },
      'Redis connection failed; trying again. Check that Redis runs and storage.url is right',
    );
    client.on('error', (error: Error) => reporter.failed(error));
    client.on('ready', () => reporter.recovered());
    return client;
  };
  const open = (name: string, more: RedisOptions): Redis => {
    const client = new Redis(url, {
      connectionName: `lanekeeper:${name}`,
      connectTimeout: 5_000,
      maxLoadingRetryTime: 1_000,
      retryStrategy: (attempt) => Math.min(50 * 2 ** (attempt - 1), 1_000) + Math.random() * 100,
      // After a failover the old primary answers as a replica.
      reconnectOnError: (error) => error.message.startsWith('READONLY'),
      ...more,
    });
    return report(client, name);
  };
  const failFast = { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false, autoResubscribe: false };
  const commands = open('commands', failFast);
  const subscriber = open('subscriber', failFast);
  const call = createCaller(commands, address, timeoutMs);
  const callSubscriber = createCaller(subscriber, address, timeoutMs);
  let closing: Promise<void> | undefined;

  return {
    address,
    commands,
    subscriber,
    ready: () => commands.status === 'ready',
    call,
    callSubscriber,
    openWorker(name) {
      // Longer than the longest blocking command (10 s): a silent connection is replaced.
      const client = open(name, { maxRetriesPerRequest: null, socketTimeout: 15_000 });
      const clients = [client];
      const duplicate = client.duplicate.bind(client);
      client.duplicate = (override) => {
        const copy = report(duplicate(override), `${name} (blocking)`);
        clients.push(copy);
        return copy;
      };
      return { client, cut: async () => void (await Promise.all(clients.map(cutClient))) };
    },
    close: () =>
      (closing ??= Promise.all([endClient(commands), endClient(subscriber)]).then(() => undefined)),
  };
}

function createCaller(client: Redis, address: string, timeoutMs: number): Connections['call'] {
  let answeredAt = 0;
  let reason: string | undefined;
  /** Calls that wait for the connection; each looks at it again when told to. */
  const waiting = new Set<() => void>();
  const lookAgain = () => {
    for (const look of waiting) look();
  };
  client.on('error', (error: Error) => (reason = reasonOf(error)));
  client.on('ready', () => {
    reason = undefined;
    lookAgain();
  });
  client.on('end', lookAgain);

  function ready(): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (done: () => void) => {
        clearTimeout(timer);
        waiting.delete(look);
        done();
      };
      const fail = () =>
        reject(unavailable(`Redis at ${address} cannot be used${reason === undefined ? '' : `: ${reason}`}`));
      const look = () => {
        if (client.status === 'ready') settle(resolve);
        else if (client.status === 'end') settle(fail);
      };
      const timer = setTimeout(() => settle(fail), timeoutMs);
      waiting.add(look);
      look();
    });
  }

  function answered<T>(reply: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const sentAt = performance.now();
      let timer = setTimeout(expire, timeoutMs);
      let settled = false;

      function expire(): void {
        // Replies that came while this process was busy or stopped are read before the verdict.
        setImmediate(() => {
          if (settled) return;
          const now = performance.now();
          const silentMs = now - Math.max(answeredAt, sentAt);
          if (silentMs < timeoutMs && now - sentAt < timeoutMs * BUSY_FACTOR) {
            timer = setTimeout(expire, timeoutMs - silentMs);
            return;
          }
          settled = true;
          reject(unavailable(`Redis at ${address} did not answer within ${Math.round(now - sentAt)} ms`));
          // The connection may be dead without anybody having said so (a failover, a lost route).
          if (silentMs >= timeoutMs && client.status === 'ready') client.disconnect(true);
        });
      }

      reply.then(
        (value) => {
          settled = true;
          clearTimeout(timer);
          answeredAt = performance.now();
          resolve(value);
        },
        (error: unknown) => {
          settled = true;
          clearTimeout(timer);
          answeredAt = performance.now();
          reject(asUnavailable(error, address));
        },
      );
    });
  }

  return async (send) => {
    if (client.status !== 'ready') await ready();
    return answered(send(client));
  };
}

export function unavailable(detail: string, cause?: unknown): AppError {
  return new AppError('storage_unavailable', detail, { cause, retryAfterMs: 1_000 });
}

function asUnavailable(error: unknown, address: string): AppError {
  if (error instanceof AppError) return error;
  const message = reasonOf(error);
  const cause = new Error(message);
  const code = /^[A-Z]{3,}\b/.exec(message)?.[0];
  if (code === undefined) return unavailable(`the connection to Redis at ${address} broke`, cause);
  return unavailable(`Redis at ${address} refused the operation (${code})`, cause);
}

export function isConnectionError(error: Error): boolean {
  const { syscall, code } = error as NodeJS.ErrnoException;
  return (
    syscall !== undefined ||
    code !== undefined ||
    /^(Connection is closed|Socket timeout)/.test(error.message)
  );
}

/** Ends a client in whatever state it is. Replies that are on their way are waited for, briefly. */
export async function endClient(client: Redis, graceMs = 1_000): Promise<void> {
  if (client.status === 'end') return;
  const ended = new Promise<void>((resolve) => client.once('end', resolve));
  if (client.status === 'ready') {
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => (timer = setTimeout(resolve, graceMs)));
    await Promise.race([client.quit().catch(() => undefined), grace]);
    clearTimeout(timer);
  }
  await cutClient(client);
  await ended;
}

/** Ends a client at once; what is in flight on it rejects. */
async function cutClient(client: Redis): Promise<void> {
  const { status } = client;
  if (status === 'end') return;
  client.disconnect();
  if (status === 'reconnecting') {
    // Between two attempts there is no socket whose closing would end the client: one more attempt is, either way.
    await client.connect().catch(() => undefined);
    client.disconnect();
  }
}

function addressOf(url: string): string {
  let parsed: URL | undefined;
  try {
    parsed = new URL(url);
  } catch {
    // Reported below, without the URL: it may hold a password.
  }
  if (!parsed || !['redis:', 'rediss:'].includes(parsed.protocol)) {
    throw new AppError(
      'config_invalid',
      'storage.url must look like redis://host:6379 or rediss://host:6379',
    );
  }
  return `${parsed.hostname || 'localhost'}:${parsed.port || '6379'}`;
}
