// OpenAI chunks → reply. Everything a vendor may leave out, send twice or put somewhere else is met here; see
// docs/models.md for who does what.
import type { Usage } from '../../domain/messages.ts';
import type { AnswerStream } from '../client.ts';
import { CallError, failureOfBody } from '../errors.ts';
import { usageOf, type Reply } from '../reply.ts';
import { createDetails } from './reasoning-details.ts';
import { createToolCalls } from './tool-calls.ts';

type Json = Record<string, unknown>;

/** Names under which reasoning comes, as a plain string; the first that says something counts. */
const REASONING_FIELDS = ['reasoning_content', 'reasoning', 'reasoning_text', 'thinking'];

export interface OpenAIStreamOptions {
  reply: Reply;
  /** Remember the fields of reasoning, so that it is sent back. */
  keepReasoning: boolean;
  /** Deltas may hold all text so far again (MiniMax with reasoning_split). */
  cumulative: boolean;
}

export function createOpenAIStream({ reply, keepReasoning, cumulative }: OpenAIStreamOptions): AnswerStream {
  const calls = createToolCalls();
  const details = createDetails();
  let finish: string | undefined;
  let usage: Usage | undefined;
  let received = false;
  let said = '';

  /** What is new in a delta that may repeat everything before it. */
  const fresh = (text: string): string => {
    if (!cumulative) return text;
    const delta = text.length >= said.length && text.startsWith(said) ? text.slice(said.length) : text;
    said += delta;
    return delta;
  };

  const content = (value: unknown) => {
    if (typeof value === 'string') reply.text(fresh(value));
    else for (const part of several(value)) contentPart(part);
  };
  const contentPart = (part: unknown) => {
    if (typeof part === 'string') return reply.text(part);
    if (!isObject(part)) return;
    if (part.type === 'thinking' || part.type === 'reasoning')
      reply.thinking(partText(part.thinking ?? part.reasoning ?? part.text));
    else if (typeof part.text === 'string') reply.text(part.text);
  };

  const delta = (value: Json) => {
    const field = REASONING_FIELDS.find((name) => typeof value[name] === 'string' && value[name] !== '');
    const hasDetails = Array.isArray(value.reasoning_details) && value.reasoning_details.length > 0;
    const detailText = hasDetails ? details.add(value.reasoning_details as unknown[]) : '';
    if (field !== undefined) reply.thinking(String(value[field]), keepReasoning ? field : undefined);
    else if (detailText) reply.thinking(detailText, keepReasoning ? 'reasoning_details' : undefined);
    content(value.content);
    if (typeof value.refusal === 'string') reply.text(value.refusal);
    for (const call of several(value.tool_calls)) if (isObject(call)) calls.add(call);
    if (isObject(value.function_call)) calls.add({ index: 0, function: value.function_call });
    if (field !== undefined || hasDetails || value.content || calls.size > 0) received = true;
  };

  return {
    push(chunk) {
      if (!isObject(chunk)) return;
      failIn(chunk);
      if (chunk.choices === undefined) failInstead(chunk);
      usage = usageOf(chunk.usage) ?? usage;
      // One is asked for; some put text and calls into two.
      for (const choice of Array.isArray(chunk.choices) ? chunk.choices : []) {
        if (!isObject(choice)) continue;
        failIn(choice);
        usage = usageOf(choice.usage) ?? usage;
        // MiniMax ends with the whole message once more; a gateway that does not stream sends nothing else.
        if (isObject(choice.delta)) delta(choice.delta);
        else if (isObject(choice.message) && !received) delta(choice.message);
        const reason = choice.finish_reason;
        if (typeof reason === 'string' && reason !== '') finish = reason.toLowerCase();
      }
    },
    get finished() {
      return finish !== undefined;
    },
    finish(taken) {
      const raw = calls.finish(taken);
      if (keepReasoning && details.size > 0) sign(reply, details.json());
      const reason = finish ?? '';
      const failure = FAILURES[reason];
      return {
        content: reply.finish(raw),
        stop: LENGTHS.has(reason) ? 'length' : raw.length > 0 ? 'tool_use' : 'stop',
        ...(usage && { usage }),
        ...(failure !== undefined && {
          failure: { code: reason, message: `Provider finish_reason: ${failure}` },
        }),
      };
    },
  };
}

/** Reasons that are failures, in lower case; the rest of the world's words for a normal end are decided by the calls. */
const FAILURES: Record<string, string> = {
  model_context_window_exceeded: 'model_context_window_exceeded',
  content_filter: 'content_filter: the answer was withheld',
  sensitive: 'content_filter: the answer was withheld',
  refusal: 'content_filter: the model refused',
  // Gemini's, through gateways.
  safety: 'content_filter: the answer was withheld',
  prohibited_content: 'content_filter: the answer was withheld',
  blocklist: 'content_filter: the answer was withheld',
  spii: 'content_filter: the answer was withheld',
  insufficient_system_resource: 'insufficient_system_resource: the server ran out of capacity',
  network_error: 'network_error: the vendor lost the model',
  error: 'server_error: the vendor ended with an error',
  abort: 'server_error: the vendor aborted the answer',
};

const LENGTHS: ReadonlySet<string> = new Set([
  'length',
  'max_tokens',
  'max_output_tokens',
  'max_completion_tokens',
  'max_length',
]);

/** Errors inside a 200 stream: an `error` in the chunk or (OpenRouter) in a choice, MiniMax's `base_resp`. */
function failIn({ error, base_resp: outcome }: Json): void {
  if (isObject(error) || (typeof error === 'string' && error !== '')) failWith(error);
  if (isObject(outcome) && typeof outcome.status_code === 'number' && outcome.status_code !== 0)
    failWith(outcome);
}

/** An error instead of a chunk: vLLM's has `object: "error"`; others are only a code and a message. */
function failInstead(chunk: Json): void {
  if (
    chunk.object === 'error' ||
    chunk.type === 'error' ||
    ERROR_TEXTS.some((key) => typeof chunk[key] === 'string')
  )
    failWith(chunk);
}

const ERROR_TEXTS = ['message', 'msg', 'error_msg', 'detail'];

/** An object without a code or a word is no error: some gateways put one into every chunk. */
function failWith(error: unknown): void {
  const failure = failureOfBody(error);
  if (failure.message || !/^0?$/.test(failure.code)) throw new CallError(failure);
}

/** Puts the vendor's own structure into the last thinking block, to be echoed verbatim. */
function sign(reply: Reply, json: string): void {
  const block = reply.thinkingBlock('reasoning_details');
  block.signature = json;
}

function partText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return '';
  return value.map((part) => (isObject(part) && typeof part.text === 'string' ? part.text : '')).join('');
}

/** A list; where a list belongs, some send its only item. */
const several = (value: unknown): unknown[] =>
  Array.isArray(value) ? value : isObject(value) ? [value] : [];

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
