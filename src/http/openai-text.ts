// A run's events → the text that an OpenAI client has been sent. That API can only add: what a run takes back (a model
// call that failed half way and starts again) is made good by going on where the new text differs.
import type { RunEvent } from '../domain/events.ts';

export interface TextStream {
  /** The text to add for this event; empty for most. */
  next(event: RunEvent): string;
  /** The text to add once the answer is known. */
  finish(answer: string): string;
}

const GAP = '\n\n';

export function createTextStream(): TextStream {
  /** All that was sent before the current assistant message, and what was sent of it. */
  let before = '';
  let sent = '';
  /** The current message as it should read. */
  let current = '';

  /** Sends what is new in `current`; a text that went another way is started over after a gap. */
  function advance(): string {
    if (sent.startsWith(current)) return '';
    let more: string;
    if (current.startsWith(sent)) {
      more = current.slice(sent.length);
      // Turns are told apart in the one text that they make.
      if (sent === '' && before !== '') more = GAP + more;
    } else {
      before += sent;
      more = GAP + current;
    }
    sent = current;
    return more;
  }

  return {
    next(event) {
      switch (event.type) {
        case 'message_start':
          if (event.role !== 'assistant') return '';
          before += sent;
          sent = '';
          current = '';
          return '';
        case 'message_update':
          current += event.delta;
          return advance();
        case 'message_reset':
          current = '';
          return '';
        default:
          return '';
      }
    },
    finish(answer) {
      if ((before + sent).trimEnd().endsWith(answer.trim())) return '';
      current = answer;
      return advance();
    },
  };
}
