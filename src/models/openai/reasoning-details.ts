// OpenAI stream: `reasoning_details[]` (OpenRouter, MiniMax). Entries come in pieces and go back whole and unaltered,
// encrypted ones included.

type Detail = Record<string, unknown>;

export interface Details {
  /** Returns the readable text that is new. */
  add(details: unknown[]): string;
  readonly size: number;
  json(): string;
}

/** Shorter texts are too likely to repeat by chance to be taken for a snapshot of everything so far. */
const SNAPSHOT_CHARS = 16;

export function createDetails(): Details {
  const entries: Detail[] = [];
  return {
    add(details) {
      let text = '';
      for (const detail of details) {
        if (typeof detail !== 'object' || detail === null) continue;
        const next = detail as Detail;
        const last = entries.at(-1);
        if (!last || last.type !== next.type || last.index !== next.index || 'data' in next) {
          entries.push({ ...next });
          text += readable(next);
          continue;
        }
        for (const [key, value] of Object.entries(next)) {
          if (value === null || value === undefined) continue;
          if ((key !== 'text' && key !== 'summary') || typeof value !== 'string') last[key] = value;
          else {
            const before = typeof last[key] === 'string' ? last[key] : '';
            const piece = fresh(before, value);
            last[key] = before + piece;
            text += piece;
          }
        }
      }
      return text;
    },
    get size() {
      return entries.length;
    },
    json: () => JSON.stringify(entries),
  };
}

/** MiniMax sends the whole text so far in each chunk, others only what is new. */
const fresh = (before: string, text: string): string =>
  before.length >= SNAPSHOT_CHARS && text.startsWith(before) ? text.slice(before.length) : text;

const readable = (detail: Detail): string => {
  const text = detail.text ?? detail.summary;
  return typeof text === 'string' ? text : '';
};
