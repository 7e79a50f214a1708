// OpenAI stream → whole tool calls. Vendors agree on little: ids and indexes may be missing, empty, equal, or new in
// every chunk; arguments may be null or an object. What is believed, in this order: a known id, the index, the name.
import type { RawToolCall } from '../../ports/model.ts';
import { newCallId } from '../call-ids.ts';

export interface ToolCallDelta {
  index?: unknown;
  id?: unknown;
  function?: unknown;
  [key: string]: unknown;
}

interface Open {
  id: string;
  name: string;
  arguments: string;
  index: number | undefined;
  extra?: Record<string, unknown>;
}

interface Fragment {
  index: number | undefined;
  id: string;
  name: string;
  text: string;
}

export interface ToolCalls {
  add(delta: ToolCallDelta): void;
  readonly size: number;
  /** Calls without a name are dropped: nothing can be done with them. Ids in `taken` are replaced. */
  finish(taken: (id: string) => boolean): RawToolCall[];
}

export function createToolCalls(): ToolCalls {
  const calls: Open[] = [];

  /** The call that a delta goes on with; undefined: it begins a new one. */
  const continued = ({ index, id, name, text }: Fragment): Open | undefined => {
    if (id) {
      const known =
        calls.findLast((call) => call.id === id && call.index === index) ??
        // The same id under another index and with a name of its own is another call (GLM: one id for all).
        calls.findLast((call) => call.id === id && (!name || index === undefined));
      if (known) return goesOn(known, name, text) ? known : undefined;
    }
    const last = calls.at(-1);
    const here = index === undefined ? last : calls.findLast((call) => call.index === index);
    if (!here) return name || id ? undefined : last;
    if (!id || here.id === '') return goesOn(here, name, text) ? here : undefined;
    // A new id under a known index: a new call (every index is 0), or one call with a fresh id in every chunk.
    return !name || (name === here.name && unfinished(here, text)) ? here : undefined;
  };

  return {
    add(delta) {
      const details = isObject(delta.function) ? delta.function : {};
      const index = indexOf(delta.index);
      const id =
        typeof delta.id === 'number' ? String(delta.id) : typeof delta.id === 'string' ? delta.id : '';
      const name = typeof details.name === 'string' ? details.name : '';
      const text = argumentText(details.arguments);
      let call = continued({ index, id, name, text });
      if (!call) {
        if (!id && !name && !text) return;
        call = { id, name, arguments: '', index };
        calls.push(call);
      } else {
        call.id ||= id;
        call.name ||= name;
      }
      // Empty arguments that came first were only a placeholder (Claude's input, translated).
      if (/^\s*\{\s*\}\s*$/.test(call.arguments) && text.trimStart().startsWith('{')) call.arguments = '';
      // Some send the whole call once more at the end.
      if (text !== call.arguments || !isComplete(text)) call.arguments += text;
      const { extra_content: extra } = delta;
      if (isObject(extra))
        call.extra = { extra_content: { ...(call.extra?.extra_content as object | undefined), ...extra } };
    },
    get size() {
      return calls.length;
    },
    finish(taken) {
      const used = new Set<string>();
      return calls
        .filter(({ name }) => name !== '')
        .map(({ id, name, arguments: text, extra }) => {
          const usable = id !== '' && !used.has(id) && !taken(id);
          const call: RawToolCall = {
            type: 'tool_call',
            id: usable ? id : newCallId(),
            name,
            arguments: text,
          };
          if (extra) call.extra = extra;
          used.add(call.id);
          return call;
        });
    },
  };
}

/** False if the delta's name begins another call: a different one, or the same again after complete arguments. */
function goesOn(call: Open, name: string, text: string): boolean {
  if (!name || !call.name) return true;
  if (name !== call.name) return false;
  return text === '' || !isComplete(call.arguments) || text === call.arguments;
}

/** The call waits for more, and `text` is a piece and not arguments of its own. */
function unfinished(call: Open, text: string): boolean {
  if (call.arguments === '') return text !== '' && !isComplete(text);
  return !isComplete(call.arguments);
}

function isComplete(text: string): boolean {
  if (!text.trimEnd().endsWith('}')) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A number, even one that comes as text. */
const indexOf = (value: unknown): number | undefined =>
  typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value)) ? Number(value) : undefined;

function argumentText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === null || value === undefined ? '' : JSON.stringify(value);
}
