// Anthropic events → reply. Fed with parsed events, named or not: vendors that copy the API forget names, signatures and
// usage here and there.
import { randomUUID } from 'node:crypto';
import type { Usage } from '../../domain/messages.ts';
import type { RawToolCall } from '../../ports/model.ts';
import type { AnswerStream } from '../client.ts';
import { CallError, failureOfBody } from '../errors.ts';
import { usageOf, type Reply } from '../reply.ts';

type Json = Record<string, unknown>;

interface OpenCall {
  id: string;
  name: string;
  /** What the block began with: some vendors put everything there. */
  begun: string;
  json: string;
}

export function createAnthropicStream(reply: Reply): AnswerStream {
  const calls: OpenCall[] = [];
  /** The call that a delta of this index goes to; undefined: a block that is no call of ours. */
  const blocks = new Map<unknown, OpenCall | undefined>();
  let stop: string | undefined;
  let delivered = false;
  let usage: Usage | undefined;

  const count = (value: unknown) => {
    const next = usageOf(value);
    if (!next) return;
    // The first report has the input, the last the output; vendors differ in which they repeat.
    usage = {
      input: Math.max(usage?.input ?? 0, next.input),
      output: next.output || (usage?.output ?? 0),
      cached: Math.max(usage?.cached ?? 0, next.cached),
    };
  };

  const start = (index: unknown, block: Json) => {
    reply.close();
    blocks.set(index, undefined);
    if (block.type === 'text') reply.text(str(block.text));
    else if (block.type === 'thinking') {
      reply.thinkingBlock('thinking');
      reply.thinking(str(block.thinking), 'thinking');
      if (str(block.signature)) sign(str(block.signature));
    } else if (block.type === 'redacted_thinking') {
      reply.redacted(str(block.data));
    } else if (block.type === 'tool_use') {
      const call = { id: str(block.id), name: str(block.name), begun: argumentText(block.input), json: '' };
      calls.push(call);
      blocks.set(index, call);
    }
  };

  const sign = (signature: string) => {
    const block = reply.thinkingBlock('thinking');
    block.signature = (block.signature ?? '') + signature;
  };

  const delta = (index: unknown, value: Json) => {
    if (value.type === 'text_delta') reply.text(str(value.text));
    else if (value.type === 'thinking_delta') reply.thinking(str(value.thinking), 'thinking');
    else if (value.type === 'signature_delta') sign(str(value.signature));
    else if (value.type === 'input_json_delta') {
      const call = blocks.has(index) ? blocks.get(index) : calls.at(-1);
      if (call) call.json += argumentText(value.partial_json);
    }
  };

  /** A whole message, from a gateway that does not stream. */
  const whole = (message: Json) => {
    for (const [index, block] of list(message.content).entries()) start(index, block);
    count(message.usage);
    stop = str(message.stop_reason) || 'end_turn';
  };

  return {
    push(event) {
      if (!isObject(event)) return;
      if (event.type === 'error' || isObject(event.error)) throw new CallError(failureOfBody(event));
      if (event.type === 'message') return whole(event);
      if (event.type === 'message_start' && isObject(event.message)) count(event.message.usage);
      else if (event.type === 'content_block_start' && isObject(event.content_block))
        start(event.index, event.content_block);
      else if (event.type === 'content_block_delta' && isObject(event.delta)) delta(event.index, event.delta);
      else if (event.type === 'content_block_stop') reply.close();
      else if (event.type === 'message_delta') {
        delivered = true;
        if (isObject(event.delta) && str(event.delta.stop_reason)) stop = str(event.delta.stop_reason);
        count(event.usage);
      }
      // Some give no reason, and end in order all the same.
      else if (event.type === 'message_stop' && delivered) stop ??= 'end_turn';
    },
    get finished() {
      return stop !== undefined;
    },
    finish(taken) {
      const raw = rawCalls(calls, taken);
      const failure = FAILURES[stop ?? ''];
      return {
        content: reply.finish(raw),
        stop: LENGTHS.has(stop ?? '') ? 'length' : raw.length > 0 ? 'tool_use' : 'stop',
        ...(usage && { usage }),
        ...(failure !== undefined && { failure: { code: failure, message: `stop_reason: ${String(stop)}` } }),
      };
    },
  };
}

/** Stop reasons that are failures, and the code that says which. */
const FAILURES: Record<string, string> = {
  refusal: 'content_filter',
  content_filter: 'content_filter',
  model_context_window_exceeded: 'context_window_exceeded',
};

const LENGTHS: ReadonlySet<string> = new Set(['max_tokens', 'length']);

function rawCalls(calls: OpenCall[], taken: (id: string) => boolean): RawToolCall[] {
  const used = new Set<string>();
  return calls
    .filter(({ name }) => name !== '')
    .map((call) => {
      const usable = call.id !== '' && !used.has(call.id) && !taken(call.id);
      const id = usable ? call.id : `toolu_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
      used.add(id);
      return { type: 'tool_call', id, name: call.name, arguments: call.json || call.begun };
    });
}

/** Text as it is, an object as JSON; an empty one says nothing. */
const argumentText = (value: unknown): string =>
  isObject(value) ? (Object.keys(value).length > 0 ? JSON.stringify(value) : '') : str(value);

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const list = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);
const str = (value: unknown): string => (typeof value === 'string' ? value : '');
