// RunControl on Redis: the mark is in the conversation's hash (cancel.lua), the signal goes over one pub/sub channel
// that append, reset and cancel publish to. A signal that is lost with a connection only makes things slower.
import type { RunControl } from '../../ports/control.ts';
import type { Logger } from '../../ports/log.ts';
import { conversationKeys, idOf } from './keys.ts';
import type { RedisContext } from './operations.ts';
import type { Subscriber } from './subscriber.ts';

type SignalHandler = Parameters<RunControl['onSignal']>[0];

export interface RedisControl extends RunControl {
  /** Resolves when signals arrive here; rejects if that takes too long, and goes on trying. */
  attached: Promise<void>;
}

export function createControl(
  { operate, channels }: RedisContext,
  subscriber: Subscriber,
  { log }: { log: Logger },
): RedisControl {
  const handlers = new Set<SignalHandler>();

  const { ready: attached } = subscriber.listen(channels.signals, {
    message(payload) {
      const [, type, name, run] = /^(cancel|arrived)\n([^\n]*)\n(.*)$/s.exec(payload) ?? [];
      if (type === undefined || name === undefined || run === undefined) return;
      const signal = { type: type as 'cancel' | 'arrived', conversation: idOf(name), run };
      for (const handler of handlers) {
        try {
          handler(signal);
        } catch (error) {
          log.error({ error, signal: type }, 'a handler of run signals failed; the others are not affected');
        }
      }
    },
  });

  return {
    attached,
    async cancel(conversation) {
      const { meta, name } = conversationKeys(conversation);
      const run = await operate('cancel', [meta], [name, channels.signals]);
      return run === null ? undefined : (run as string);
    },
    onSignal(handler) {
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
  };
}
