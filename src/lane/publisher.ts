// Batches a run's events on their way to the event log: consecutive deltas become one, and a batch goes out at most
// every `intervalMs`, so that a fast stream costs a few writes and not one per token. Never blocks or fails the run.
import type { RunEvent } from '../domain/events.ts';
import type { RunEventLog } from '../ports/events.ts';
import type { Logger } from '../ports/log.ts';

export interface Publisher {
  push(event: RunEvent): void;
  /** Sends what is waiting; resolves when everything pushed so far is published. */
  flush(): Promise<void>;
}

export function createPublisher(
  events: RunEventLog,
  conversation: string,
  log: Logger,
  intervalMs = 25,
): Publisher {
  let waiting: RunEvent[] = [];
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> = Promise.resolve();

  function send(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      sending = sending
        .then(() => events.publish(conversation, batch))
        .catch((error: unknown) =>
          log.debug({ error }, 'run events were not published; readers will resync'),
        );
    }
    return sending;
  }

  return {
    push(event) {
      const last = waiting.at(-1);
      if (last && isDelta(event) && last.type === event.type) {
        waiting[waiting.length - 1] = { ...last, delta: last.delta + event.delta };
      } else {
        waiting.push(event);
      }
      timer ??= setTimeout(() => void send(), intervalMs);
    },
    flush: send,
  };
}

function isDelta(
  event: RunEvent,
): event is RunEvent & { type: 'message_update' | 'reasoning_update'; delta: string } {
  return event.type === 'message_update' || event.type === 'reasoning_update';
}
