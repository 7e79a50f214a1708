// Model layer: several keys for one entry. A key that the vendor turned down rests for a while and the next one is tried
// at once, as long as nothing was streamed; afterwards the next attempt takes another key.
import type { Clock } from '../ports/clock.ts';
import type { ModelClient, ModelError, ModelErrorKind, ModelEvent, ModelRequest } from '../ports/model.ts';
import type { Logger } from '../ports/log.ts';

/** How long a key rests, in milliseconds, unless the vendor says when to come back. */
const REST_MS: Partial<Record<ModelErrorKind, number>> = {
  rate_limit: 60_000,
  auth: 10 * 60_000,
  quota: 60 * 60_000,
};

export function createKeyed(
  client: ModelClient,
  keys: readonly string[],
  { clock, log }: { clock: Clock; log: Logger },
): ModelClient {
  if (keys.length < 2) return client;
  const restUntil = keys.map(() => 0);
  /** Keys take turns from here. */
  let next = 0;

  /** The next key that does not rest; when all do, the one that is back first. */
  const pick = (tried: ReadonlySet<number>): number | undefined => {
    const order = keys.map((_, index) => (next + index) % keys.length).filter((index) => !tried.has(index));
    const now = clock.now();
    const rested = order.find((index) => (restUntil[index] ?? 0) <= now);
    if (rested !== undefined) return rested;
    if (tried.size > 0) return undefined;
    return order.reduce((best, index) => ((restUntil[index] ?? 0) < (restUntil[best] ?? 0) ? index : best));
  };

  const rest = (index: number, error: ModelError) => {
    const restMs = REST_MS[error.kind];
    if (restMs === undefined) return;
    restUntil[index] = clock.now() + (error.retryAfterMs ?? restMs);
    next = (index + 1) % keys.length;
    // The place in the list, never the key.
    log.warn(
      { model: client.name, key: index + 1, kind: error.kind, rest_ms: error.retryAfterMs ?? restMs },
      'key rests',
    );
  };

  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    if (request.apiKey !== undefined) {
      yield* client.stream(request, signal);
      return;
    }
    const tried = new Set<number>();
    for (let index = pick(tried); index !== undefined;) {
      tried.add(index);
      const apiKey = keys[index] ?? '';
      let another: number | undefined;
      let streamed = false;
      for await (const event of client.stream({ ...request, apiKey }, signal)) {
        if (event.type === 'failed' && event.error) {
          rest(index, event.error);
          if (!streamed && REST_MS[event.error.kind] !== undefined) another = pick(tried);
          if (another !== undefined) break;
        }
        streamed = true;
        yield event;
      }
      index = another;
    }
  }

  return { ...client, stream };
}
