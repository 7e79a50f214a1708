// Inbound message → the conversation's words. The stored form is what was said; the model's form adds when and, in
// groups, who, and what others said there before. Both are pure functions of the message, so that the model's prefix is byte-stable from run to run.
import type { InboundMessage } from '../domain/inbound.ts';
import type { Block, HistoryEntry, Message } from '../domain/messages.ts';

/** What the history keeps. */
export function storedContent(message: InboundMessage): Block[] {
  const blocks: Block[] = message.text === '' ? [] : [{ type: 'text', text: message.text }];
  for (const attachment of message.attachments ?? []) {
    const { ref, size } = attachment;
    if (attachment.type === 'image') {
      const media_type = attachment.media_type ?? 'image/*';
      blocks.push({ type: 'image', media_type, ref, ...(size === undefined ? {} : { size }) });
    } else {
      const media_type = attachment.media_type ?? 'application/octet-stream';
      const name = attachment.name ?? attachment.type;
      blocks.push({ type: 'file', media_type, name, ref, ...(size === undefined ? {} : { size }) });
    }
  }
  if (blocks.length === 0) blocks.push({ type: 'text', text: '' });
  return blocks;
}

// For the model, in one language, as everything that is the same in every prompt.
const HEARD = '(Said in the group before, not to you:)';
const ASKED = '(Said to you:)';

/**
 * Renders for the model. `zone`: IANA time zone of the time stamps. The stamp goes with each message rather than into
 * the system prompt, where a clock would break prompt caches.
 */
export function createModelRenderer(zone: string): (message: StoredMessage) => Message {
  const stamp = createStamp(zone);
  return (message) => {
    const line = (at: number, sender: StoredMessage['sender']) =>
      `[${stamp(at)}]${message.group ? ` ${sender?.name ?? sender?.id ?? ''}:` : ''}`;
    const notes = (message.notes ?? []).map((note) => `${line(note.at, note.sender)} ${note.text}`);
    const heard = notes.length > 0 ? [HEARD, ...notes, ASKED, ''].join('\n') : '';
    const head = heard + line(message.at, message.sender);
    const [first, ...rest] = message.content;
    if (first?.type === 'text') {
      return { role: 'user', content: [{ type: 'text', text: `${head} ${first.text}` }, ...rest] };
    }
    return { role: 'user', content: [{ type: 'text', text: head }, ...message.content] };
  };
}

export interface StoredMessage {
  content: Block[];
  at: number;
  sender?: HistoryEntry['sender'];
  notes?: HistoryEntry['notes'];
  group?: boolean;
}

const MAX_KNOWN_MINUTES = 5_000;

/** Minutes, weekday and zone: `2026-11-30 Mon 11:30 GMT+8`. */
function createStamp(zone: string): (at: number) => string {
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone: zone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    weekday: 'short',
    hourCycle: 'h23',
    timeZoneName: 'shortOffset',
  });
  // A run renders its whole context, of which only the newest message was not rendered by the run before.
  const known = new Map<number, string>();
  return (at) => {
    const minute = Math.floor(at / 60_000);
    let text = known.get(minute);
    if (text === undefined) {
      if (known.size >= MAX_KNOWN_MINUTES) known.clear();
      known.set(minute, (text = write(at)));
    }
    return text;
  };
  function write(at: number): string {
    const part = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]));
    return `${part['year']}-${part['month']}-${part['day']} ${part['weekday']} ${part['hour']}:${part['minute']} ${part['timeZoneName']}`;
  }
}
