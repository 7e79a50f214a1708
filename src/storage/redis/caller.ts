// One call to Redis: bounded in time, and with one error. With Redis away it rejects within about `timeoutMs` instead of
// hanging; whatever was in flight when a connection broke rejects at once: its outcome is unknown, and every operation is
// safe to repeat.
import { AppError } from '../../domain/errors.ts';
import type { Client } from './clients.ts';
import { reasonOf } from './reporter.ts';

/** Rejects only with AppError 'storage_unavailable'. */
export type Call<C> = <T>(send: (client: C) => Promise<T>) => Promise<T>;

/** What the operator may know or do, by the first word of what Redis answers. */
const HINTS: Record<string, string> = {
  READONLY: 'it is a replica; storage.url must lead to the primary',
  MOVED: 'another node of the Redis Cluster has it; the URL of a cluster begins with redis-cluster',
  CLUSTERDOWN: 'the Redis Cluster has lost nodes',
  LOADING: 'it is still reading its data',
  MASTERDOWN: 'it is a replica without its primary',
  NOREPLICAS: 'min-replicas-to-write asks for replicas that are not there',
  MISCONF: 'it cannot write to its disk',
  OOM: 'its memory is full',
  NOAUTH: 'it asks for a password',
  WRONGPASS: 'user or password is wrong',
  NOPERM: 'the user may not do that; see the rights in docs/operator.md',
};

/** A call that waits in a busy but answering connection may take this many times as long. */
const BUSY_FACTOR = 5;

export function createCaller<C extends Client>(client: C, address: string, timeoutMs: number): Call<C> {
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
          // The connection may be dead without anybody having said so (a failover, a lost route). Those to the nodes of a cluster
          // have a time-out each: the others still work.
          if (silentMs >= timeoutMs && client.status === 'ready' && !client.isCluster)
            client.disconnect(true);
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
  const hint = HINTS[code];
  return unavailable(`Redis at ${address} refused the operation (${code}${hint ? `: ${hint}` : ''})`, cause);
}
