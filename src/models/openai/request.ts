// History → the body of a chat completion. A message is converted once per client and kept as long as the message
// itself lives; what depends on its neighbours (merging, bridging) is done on the converted list. `messages` stands last
// in the body, so that an earlier request of a conversation is a prefix of the later one, byte for byte.
import { textOf, type Message } from '../../domain/messages.ts';
import type { ModelRequest, ToolSpec } from '../../ports/model.ts';
import type { ModelEntry } from '../settings.ts';
import { toWire, type WireMessage } from './messages.ts';

export type Json = Record<string, unknown>;

export interface RequestBuilder {
  build(request: ModelRequest): Json;
}

/** `flags` is read at each call: it may learn (see adapt.ts), and then the memory is renewed. */
export function createRequestBuilder(entry: ModelEntry): RequestBuilder {
  let flags = entry.flags;
  let converted = new WeakMap<Message, WireMessage[]>();
  const tools = new WeakMap<readonly ToolSpec[], Json[]>();

  const convert = (message: Message): WireMessage[] => {
    let wire = converted.get(message);
    if (!wire) {
      wire = toWire(flags.tools ? message : inWords(message), entry);
      converted.set(message, wire);
    }
    return wire;
  };

  const toolList = (specs: readonly ToolSpec[]): Json[] => {
    let list = tools.get(specs);
    if (!list) {
      list = specs.map(({ name, description, parameters }) => ({
        type: 'function',
        function: { name, description, parameters },
      }));
      tools.set(specs, list);
    }
    return list;
  };

  return {
    build(request) {
      if (flags !== entry.flags) {
        flags = entry.flags;
        converted = new WeakMap();
      }
      const wire: WireMessage[] = [];
      for (const message of request.messages) wire.push(...convert(message));
      const messages = arrange(wire, entry);
      return {
        model: entry.model,
        stream: true,
        ...(flags.stream_usage && { stream_options: { include_usage: true } }),
        ...(flags.max_tokens_field !== 'none' && { [flags.max_tokens_field]: entry.maxOutputTokens }),
        ...(flags.prompt_cache_key && { prompt_cache_key: cacheKey(request.cacheKey) }),
        ...(request.thinking && entry.thinking[request.thinking]),
        ...entry.extraBody,
        ...toolFields(request, toolList, flags),
        messages: [...systemMessages(request.system, messages, flags.system_role), ...messages],
      };
    },
  };
}

function toolFields(
  request: ModelRequest,
  list: (specs: readonly ToolSpec[]) => Json[],
  flags: ModelEntry['flags'],
): Json {
  if (request.tools.length === 0 || !flags.tools) {
    const needed =
      flags.empty_tools &&
      flags.tools &&
      request.messages.some(({ content }) => content.some((block) => block.type === 'tool_use'));
    return needed ? { tools: [] } : {};
  }
  if (request.allowTools) return { tools: list(request.tools) };
  if (flags.tool_choice) return { tools: list(request.tools), tool_choice: 'none' };
  // Without a way to forbid calls the tools are withheld, even though that costs the cached prefix.
  return flags.empty_tools ? { tools: [] } : {};
}

/** For a model that knows no tools: calls and results of another one, told. */
const inWords = ({ role, content }: Message): Message => ({
  role,
  content: content.map((block) => {
    if (block.type === 'tool_use')
      return { type: 'text', text: `(called ${block.name} with ${JSON.stringify(block.input)})` };
    if (block.type === 'tool_result') return { type: 'text', text: `(result: ${textOf(block.content)})` };
    return block;
  }),
});

/** One system message; a model that knows no such role reads it in the first user message. */
function systemMessages(
  system: string,
  messages: WireMessage[],
  role: ModelEntry['flags']['system_role'],
): WireMessage[] {
  if (!system) return [];
  if (role !== 'user') return [{ role, content: system }];
  const first = messages[0];
  if (first?.role !== 'user') return [{ role, content: system }];
  messages[0] = joined({ role, content: system }, first);
  return [];
}

/** Makes the list one that a strict endpoint takes. */
function arrange(list: WireMessage[], { flags }: ModelEntry): WireMessage[] {
  const messages: WireMessage[] = [];
  for (const message of list) {
    const last = messages.at(-1);
    if (flags.bridge_tool_results && last?.role === 'tool' && message.role === 'user')
      messages.push({ role: 'assistant', content: 'I have the results.' });
    if (flags.merge_roles && last && last.role === message.role && message.role === 'user')
      messages[messages.length - 1] = joined(last, message);
    else if (
      flags.merge_roles &&
      last?.role === 'assistant' &&
      message.role === 'assistant' &&
      !last.tool_calls
    )
      messages[messages.length - 1] = {
        ...last,
        ...message,
        content: joinContent(last.content, message.content),
      };
    else messages.push(message);
  }
  // A last word of the model would be continued, or refused: ask instead.
  if (messages.at(-1)?.role === 'assistant') messages.push({ role: 'user', content: 'Go on.' });
  return messages;
}

const joined = (one: WireMessage, other: WireMessage): WireMessage => ({
  ...one,
  content: joinContent(one.content, other.content),
});

function joinContent(one: WireMessage['content'], other: WireMessage['content']): WireMessage['content'] {
  if (one === null || one === '') return other;
  if (other === null || other === '') return one;
  if (typeof one === 'string' && typeof other === 'string') return `${one}\n\n${other}`;
  const parts = (content: string | Json[]) =>
    typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return [...parts(one), ...parts(other)];
}

/** OpenAI takes up to 64 characters; a longer key keeps its end, where conversations differ. */
const cacheKey = (key: string): string => (key.length > 64 ? key.slice(-64) : key);
