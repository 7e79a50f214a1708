// Keeps a lease alive while its run works, and tells the run when it must stop: 'lost' when the lease is gone (or could
// not be renewed for as long as it lasts), 'cancel' when somebody asked for it.
import type { Logger } from '../ports/log.ts';
import type { ConversationStore, Lease } from '../ports/store.ts';

export interface HeartbeatOptions {
  store: ConversationStore;
  lease: Lease;
  leaseMs: number;
  controller: AbortController;
  log: Logger;
}

/** Returns a function that stops it. */
export function startHeartbeat({ store, lease, leaseMs, controller, log }: HeartbeatOptions): () => void {
  // performance.now() is monotonic: a clock that jumps must not end a healthy run.
  let renewedAt = performance.now();
  let renewing = false;

  async function beat(): Promise<void> {
    const startedAt = performance.now();
    try {
      const renewed = await store.renew(lease, leaseMs);
      if (!renewed) return controller.abort('lost');
      renewedAt = startedAt;
      if (renewed.cancelled) controller.abort('cancel');
    } catch (error) {
      log.warn({ error }, 'lease could not be renewed; trying again until it ends');
    }
  }

  const timer = setInterval(() => {
    if (performance.now() - renewedAt > leaseMs) return controller.abort('lost');
    if (renewing) return;
    renewing = true;
    void beat().finally(() => (renewing = false));
  }, leaseMs / 3);

  return () => clearInterval(timer);
}
