// Anthropic messages as the fake speaks them: reply → named SSE events, and the request in shared words.
import { createHash } from 'node:crypto';
import { estimate } from './openai-wire.ts';
import {
  callText,
  contentText,
  isObject,
  objects,
  pieces,
  str,
  type Json,
  type RecordedRequest,
  type ScriptedReply,
  type ScriptRequest,
} from './types.ts';

/** Signatures of the fake: bound to the model and the exact text, so that an altered block is noticed. */
export const signatureOf = (model: string, thinking: string): string =>
  `sig${createHash('sha256').update(`${model}\n${thinking}`).digest('base64url')}`;

const usageOf = (usage: NonNullable<ScriptedReply['usage']>): Json => ({
  input_tokens: usage.input - (usage.cached ?? 0),
  cache_read_input_tokens: usage.cached ?? 0,
  cache_creation_input_tokens: 0,
  output_tokens: usage.output,
});

const stopOf = (reply: ScriptedReply): string | null =>
  reply.stop === undefined ? (reply.calls?.length ? 'tool_use' : 'end_turn') : reply.stop;

/** The events of a reply; each goes out under the name in its `type`. */
export function anthropicEvents(reply: ScriptedReply, request: ScriptRequest): (Json | string)[] {
  if (reply.events) return reply.events;
  const usage = reply.usage === null ? undefined : usageOf(reply.usage ?? estimate(request, reply));
  const message = {
    id: `msg_${request.n}`,
    type: 'message',
    role: 'assistant',
    model: request.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...(usage && { usage: { ...usage, output_tokens: 1 } }),
  };
  const events: Json[] = [{ type: 'message_start', message }, { type: 'ping' }];
  let index = 0;
  const block = (start: Json, deltas: Json[]) => {
    events.push({ type: 'content_block_start', index, content_block: start });
    for (const delta of deltas) events.push({ type: 'content_block_delta', index, delta });
    events.push({ type: 'content_block_stop', index });
    index++;
  };
  if (reply.thinking !== undefined) {
    const texts = pieces(reply.thinking);
    block({ type: 'thinking', thinking: '', signature: '' }, [
      ...texts.map((thinking) => ({ type: 'thinking_delta', thinking })),
      { type: 'signature_delta', signature: signatureOf(request.model, texts.join('')) },
    ]);
  }
  const texts = pieces(reply.text);
  if (texts.length > 0)
    block(
      { type: 'text', text: '' },
      texts.map((text) => ({ type: 'text_delta', text })),
    );
  for (const [n, call] of (reply.calls ?? []).entries())
    block({ type: 'tool_use', id: call.id ?? `toolu_${request.n}_${n}`, name: call.name, input: {} }, [
      { type: 'input_json_delta', partial_json: '' },
      ...pieces(callText(call)).map((text) => ({ type: 'input_json_delta', partial_json: text })),
    ]);
  const stop = stopOf(reply);
  if (stop !== null)
    events.push({
      type: 'message_delta',
      delta: { stop_reason: stop, stop_sequence: null },
      ...(usage && { usage: { output_tokens: usage.output_tokens } }),
    });
  events.push({ type: 'message_stop' });
  return events;
}

/** The answer to a request without `stream`. */
export const anthropicMessage = (reply: ScriptedReply, request: ScriptRequest): Json => ({
  id: `msg_${request.n}`,
  type: 'message',
  role: 'assistant',
  model: request.model,
  content: [
    ...(reply.text === undefined ? [] : [{ type: 'text', text: pieces(reply.text).join('') }]),
    ...(reply.calls ?? []).map((call, n) => ({
      type: 'tool_use',
      id: call.id ?? `toolu_${request.n}_${n}`,
      name: call.name,
      input: JSON.parse(callText(call)) as unknown,
    })),
  ],
  stop_reason: stopOf(reply),
  stop_sequence: null,
  usage: usageOf(reply.usage ?? estimate(request, reply)),
});

export function anthropicRequest(recorded: RecordedRequest): ScriptRequest {
  const { body } = recorded;
  const messages = objects(body.messages);
  const lastAssistant = messages.findLastIndex((message) => message.role === 'assistant');
  const user = messages.findLast(
    (message) => message.role === 'user' && contentText(message.content).trim() !== '',
  );
  return {
    ...recorded,
    model: str(body.model),
    system: contentText(body.system),
    text: contentText(user?.content),
    results: messages
      .slice(lastAssistant + 1)
      .flatMap((message) => objects(message.content))
      .filter((part) => part.type === 'tool_result')
      .map((part) => contentText(part.content)),
    tools:
      isObject(body.tool_choice) && body.tool_choice.type === 'none'
        ? []
        : objects(body.tools).map((tool) => str(tool.name)),
  };
}
