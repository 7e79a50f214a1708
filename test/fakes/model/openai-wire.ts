// OpenAI chat completions as the fake speaks them: reply → SSE events, and the request in shared words.
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

const usageOf = (usage: NonNullable<ScriptedReply['usage']>): Json => ({
  prompt_tokens: usage.input,
  completion_tokens: usage.output,
  total_tokens: usage.input + usage.output,
  prompt_tokens_details: { cached_tokens: usage.cached ?? 0 },
});

/** The events of a reply, each the payload of one `data:` line, `[DONE]` included. */
export function openaiEvents(reply: ScriptedReply, request: ScriptRequest): (Json | string)[] {
  if (reply.events) return [...reply.events, '[DONE]'];
  const base = {
    id: `chatcmpl-${request.n}`,
    object: 'chat.completion.chunk',
    created: 1_700_000_000,
    model: request.model,
  };
  const chunk = (delta: Json, finish: string | null = null): Json => ({
    ...base,
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const events: (Json | string)[] = [chunk({ role: 'assistant', content: '' })];
  for (const text of pieces(reply.thinking)) events.push(chunk({ reasoning_content: text }));
  for (const text of pieces(reply.text)) events.push(chunk({ content: text }));
  for (const [index, call] of (reply.calls ?? []).entries()) {
    const id = call.id ?? `call_${request.n}_${index}`;
    const head = { index, id, type: 'function', ...call.extra };
    events.push(chunk({ tool_calls: [{ ...head, function: { name: call.name, arguments: '' } }] }));
    for (const text of pieces(callText(call)))
      events.push(chunk({ tool_calls: [{ index, function: { arguments: text } }] }));
  }
  const stop = reply.stop === undefined ? (reply.calls?.length ? 'tool_calls' : 'stop') : reply.stop;
  if (stop !== null) events.push(chunk({}, stop));
  const wanted = isObject(request.body.stream_options) && request.body.stream_options.include_usage === true;
  if (reply.usage !== null && wanted)
    events.push({ ...base, choices: [], usage: usageOf(reply.usage ?? estimate(request, reply)) });
  events.push('[DONE]');
  return events;
}

/** The answer to a request without `stream`. */
export function openaiMessage(reply: ScriptedReply, request: ScriptRequest): Json {
  const calls = reply.calls?.map((call, index) => ({
    id: call.id ?? `call_${request.n}_${index}`,
    type: 'function',
    function: { name: call.name, arguments: callText(call) },
  }));
  return {
    id: `chatcmpl-${request.n}`,
    object: 'chat.completion',
    created: 1_700_000_000,
    model: request.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: pieces(reply.text).join(''),
          ...(calls?.length ? { tool_calls: calls } : {}),
        },
        finish_reason: reply.stop ?? (calls?.length ? 'tool_calls' : 'stop'),
      },
    ],
    usage: usageOf(reply.usage ?? estimate(request, reply)),
  };
}

export function estimate(request: ScriptRequest, reply: ScriptedReply): NonNullable<ScriptedReply['usage']> {
  const said =
    pieces(reply.text).join('').length +
    pieces(reply.thinking).join('').length +
    (reply.calls ?? []).reduce((sum, call) => sum + callText(call).length + 20, 0);
  return { input: Math.ceil(request.raw.length / 4), output: Math.ceil(said / 4) + 1, cached: 0 };
}

export function openaiRequest(recorded: RecordedRequest): ScriptRequest {
  const { body } = recorded;
  const messages = objects(body.messages);
  const lastAssistant = messages.findLastIndex((message) => message.role === 'assistant');
  const user = messages.findLast((message) => message.role === 'user');
  return {
    ...recorded,
    model: str(body.model),
    system: messages
      .filter((message) => message.role === 'system' || message.role === 'developer')
      .map((message) => contentText(message.content))
      .join('\n'),
    text: contentText(user?.content),
    results: messages
      .slice(lastAssistant + 1)
      .filter((message) => message.role === 'tool')
      .map((message) => contentText(message.content)),
    tools:
      body.tool_choice === 'none'
        ? []
        : objects(body.tools).map((tool) => (isObject(tool.function) ? str(tool.function.name) : '')),
  };
}
