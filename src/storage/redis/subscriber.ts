// The process's one pub/sub connection: a channel is subscribed to while somebody listens to it, and again after every
// reconnect. Listeners that must not miss anything catch up when told so.
import type { Logger } from '../../ports/log.ts';
import type { Connections } from './connection.ts';

interface Listener {
  message(payload: string): void;
  /** The connection broke: what is published from now on is missed. */
  detached?(): void;
  /** The channel is subscribed to again. Messages may have come before this. */
  attached?(): void;
}

interface Subscription {
  /** Resolves when the channel is subscribed to; rejects with AppError 'storage_unavailable'. */
  ready: Promise<void>;
  /** Stops listening, now. */
  stop(): void;
}

export interface Subscriber {
  listen(channel: string, listener: Listener): Subscription;
}

export function createSubscriber(connections: Connections, log: Logger): Subscriber {
  const { subscriber: client, callSubscriber } = connections;
  const channels = new Map<string, Set<Listener>>();

  client.on('message', (channel: string, payload: string) => {
    for (const listener of channels.get(channel) ?? []) listener.message(payload);
  });

  client.on('close', () => {
    for (const listeners of channels.values()) for (const listener of listeners) listener.detached?.();
  });

  client.on('ready', () => {
    const again = [...channels.keys()];
    if (again.length === 0) return;
    client.subscribe(...again).then(
      () => {
        for (const channel of again)
          for (const listener of channels.get(channel) ?? []) listener.attached?.();
      },
      // The connection broke again; the next 'ready' comes here.
      (error: unknown) => log.debug({ reason: String(error) }, 'subscribing to Redis channels failed'),
    );
  });

  function unsubscribe(channel: string): void {
    if (client.status !== 'ready') return;
    client.unsubscribe(channel).catch((error: unknown) => {
      // A connection that broke subscribes only to what is still listened to.
      log.debug({ reason: String(error) }, 'unsubscribing from a Redis channel failed');
    });
  }

  return {
    listen(channel, listener) {
      const listeners = channels.get(channel) ?? new Set();
      channels.set(channel, listeners.add(listener));
      // Each listener's own SUBSCRIBE, also to a channel that others listen to: its answer says that messages come.
      const ready = callSubscriber(async (connection) => {
        if (listeners.has(listener)) await connection.subscribe(channel);
      });
      // For whoever awaits it; nobody has to, since every reconnect subscribes again.
      ready.catch(() => undefined);
      return {
        ready,
        stop() {
          if (!listeners.delete(listener) || listeners.size > 0) return;
          channels.delete(channel);
          unsubscribe(channel);
        },
      };
    },
  };
}
