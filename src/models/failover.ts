// ModelClient made of several: tries the first, again after a back-off where that may help, then the next of `fallbacks`.
// What was streamed by an attempt that failed is taken back with `reset` before anything else is said.
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { ModelClient, ModelError, ModelEvent, ModelRequest } from '../ports/model.ts';

export interface RetrySettings {
  /** Attempts after the first, per model. */
  attempts: number;
  base_ms: number;
  /** Longest wait, a vendor's Retry-After included. */
  max_ms: number;
}

export interface FailoverOptions {
  /** Read at each call: it may change without a restart. */
  retry: () => RetrySettings;
  clock: Clock;
  log: Logger;
  /** How long a model that failed to the end is passed over, if there is another. */
  coolDownMs?: number;
  /** 0 … 1, for the jitter. */
  random?: () => number;
}

type Failed = Extract<ModelEvent, { type: 'failed' }>;

/** The first client's name and sizes are those of the whole. */
export function createFailover(
  clients: [ModelClient, ...ModelClient[]],
  options: FailoverOptions,
): ModelClient {
  const { clock, log, coolDownMs = 60_000, random = Math.random } = options;
  const coolUntil = new Map<ModelClient, number>();

  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    let failed: Failed | undefined;
    // Text of the attempt before, that must be taken back before the next one speaks.
    let shown = false;
    const order = byHealth(clients);
    for (const client of order) {
      const retry = options.retry();
      // A key given with the request is the first model's.
      const { apiKey, ...rest } = request;
      const asked = client === clients[0] && apiKey !== undefined ? request : rest;
      for (let attempt = 0; attempt <= retry.attempts; attempt++) {
        if (shown) {
          yield { type: 'reset' };
          shown = false;
        }
        let last: Failed | undefined;
        for await (const event of client.stream(asked, signal)) {
          if (event.type === 'failed') last = event;
          else {
            if (event.type === 'done') coolUntil.delete(client);
            else shown = event.type !== 'reset';
            yield event;
          }
        }
        // The stream ended with `done`.
        if (!last) return;
        const { error } = last;
        // What was shown last, with the first model's reason: that a stand-in's window is too small is nobody's fault.
        failed = failed?.error && client !== clients[0] ? { ...last, error: failed.error } : last;
        if (!error || signal.aborted) {
          yield last;
          return;
        }
        if (isFinal(error, client)) {
          yield last;
          return;
        }
        if (!error.retryable || attempt === retry.attempts) {
          report(client, error, order.at(-1) === client);
          break;
        }
        const delayMs = backOff(error, attempt, retry);
        log.warn(
          {
            model: client.name,
            kind: error.kind,
            error: error.message,
            attempt: attempt + 1,
            delay_ms: delayMs,
          },
          'model call failed: trying again',
        );
        try {
          await clock.sleep(delayMs, signal);
        } catch {
          yield {
            type: 'failed',
            stop: 'aborted',
            content: last.content,
            model: last.model,
            ...(last.usage && { usage: last.usage }),
          };
          return;
        }
      }
    }
    if (failed) yield failed;
  }

  /** Those that failed lately come last; among equals the configured order counts. */
  const byHealth = (all: ModelClient[]): ModelClient[] => {
    const now = clock.now();
    const cooling = (client: ModelClient) => (coolUntil.get(client) ?? 0) > now;
    return [...all.filter((client) => !cooling(client)), ...all.filter((client) => cooling(client))];
  };

  /** No other attempt can help: the context is too long (it has to be cut), or the content is not wanted. */
  const isFinal = (error: ModelError, client: ModelClient): boolean =>
    error.kind === 'refused' || (error.kind === 'overflow' && client === clients[0]);

  const report = (client: ModelClient, error: ModelError, last: boolean) => {
    if (clients.length > 1) coolUntil.set(client, clock.now() + (error.kind === 'overflow' ? 0 : coolDownMs));
    log.error(
      { model: client.name, kind: error.kind, error: error.message, status: error.status },
      last ? 'model failed, and no other is left' : 'model failed: trying the next of its fallbacks',
    );
  };

  /** Full jitter above half: between 0.5 and 1 × base × 2^attempt; never less than the vendor asks for. */
  const backOff = (error: ModelError, attempt: number, retry: RetrySettings): number => {
    const ceiling = Math.min(retry.max_ms, retry.base_ms * 2 ** attempt);
    const jittered = ceiling * (0.5 + random() / 2);
    return Math.round(Math.min(retry.max_ms, Math.max(jittered, error.retryAfterMs ?? 0)));
  };

  const [first] = clients;
  return {
    name: first.name,
    contextWindow: first.contextWindow,
    maxOutputTokens: first.maxOutputTokens,
    images: first.images,
    stream,
  };
}
