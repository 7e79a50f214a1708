// The fake model server's own words: what a script may answer, and what it is told about a request.

export type Json = Record<string, unknown>;
export type Vendor = 'openai' | 'anthropic';

export interface ScriptedCall {
  id?: string;
  name: string;
  /** Text goes out as it is; an object is serialised. */
  arguments?: string | Json;
  /** Beside `function` in the call (OpenAI wire), for thought signatures. */
  extra?: Json;
}

/** One answer. Without anything set it is an empty message that ends normally. */
export interface ScriptedReply {
  /** A list is sent one chunk an item; a string in up to four chunks. */
  text?: string | string[];
  thinking?: string | string[];
  calls?: ScriptedCall[];
  /** The vendor's own word (finish_reason, stop_reason); null: none at all. */
  stop?: string | null;
  /** Null: no usage is reported. */
  usage?: { input: number; output: number; cached?: number } | null;

  /** Payloads of `data:` lines instead of all above: objects are serialised; Anthropic's events are named by their type. */
  events?: (Json | string)[];
  /** The body's bytes, instead of events. */
  raw?: string;
  contentType?: string;

  /** A status other than 200 answers with `error` (or `raw`) and no stream. */
  status?: number;
  error?: Json | string;
  headers?: Record<string, string>;

  /** Before the status line. */
  delayMs?: number;
  /** Between two events. */
  chunkDelayMs?: number;
  /** Nothing is sent until this settles. */
  hold?: Promise<unknown>;
  /** After this many events: destroy the socket. */
  cutAfter?: number;
  /** After this many events: end the response as if all were well. */
  endAfter?: number;
  /** After this many events: send nothing more and keep the connection open. */
  stallAfter?: number;
  /** After this many events: an event that is no JSON. */
  garbleAfter?: number;
  /** After this many events: the vendor's error in the stream. */
  errorAfter?: { after: number; error: Json; named?: boolean };
}

export interface RecordedRequest {
  n: number;
  vendor: Vendor;
  path: string;
  headers: Record<string, string>;
  /** The body's text, byte for byte. */
  raw: string;
  body: Json;
  /** Milliseconds since the epoch. */
  at: number;
  /** What strict checking had to say against it; it was answered with 400. */
  rejected?: string;
  /** Resolves when the client closed the connection before the answer was complete. */
  aborted: Promise<void>;
}

/** A request in words both vendors share. */
export interface ScriptRequest extends RecordedRequest {
  model: string;
  system: string;
  /** Text of the last user message. */
  text: string;
  /** Texts of the tool results that stand after the last assistant message. */
  results: string[];
  /** Names of the offered tools; empty if calling is switched off. */
  tools: string[];
}

export type Script = (
  request: ScriptRequest,
) => ScriptedReply | undefined | Promise<ScriptedReply | undefined>;

/** Why a vendor would answer 4xx. */
export interface Rejection {
  status: number;
  type: string;
  message: string;
}

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const objects = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);

export const str = (value: unknown): string => (typeof value === 'string' ? value : '');

export const bad = (message: string, type = 'invalid_request_error'): Rejection => ({
  status: 400,
  type,
  message,
});

/** Text of a content value in either vendor's form. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  return objects(content)
    .map((part) => (part.type === 'text' ? str(part.text) : ''))
    .join('');
}

/** Up to four pieces, never inside a surrogate pair. */
export function pieces(text: string | string[] | undefined): string[] {
  if (text === undefined) return [];
  if (Array.isArray(text)) return text;
  const chars = Array.from(text);
  if (chars.length < 8) return text === '' ? [] : [text];
  const size = Math.ceil(chars.length / 4);
  const parts: string[] = [];
  for (let at = 0; at < chars.length; at += size) parts.push(chars.slice(at, at + size).join(''));
  return parts;
}

export const callText = (call: ScriptedCall): string =>
  typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments ?? {});
