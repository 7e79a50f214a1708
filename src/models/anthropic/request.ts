// History → the body of a messages request, with the breakpoints of prompt caching. They are set on the outgoing copy: what
// was converted is kept for the next call and stays without them. `messages` stands last, as in openai/request.ts.
import type { Message } from '../../domain/messages.ts';
import type { ModelRequest, ToolSpec } from '../../ports/model.ts';
import type { ModelEntry } from '../settings.ts';
import { toWire, type Json, type WireMessage } from './messages.ts';

const BREAKPOINT = { cache_control: { type: 'ephemeral' } };

export interface RequestBuilder {
  build(request: ModelRequest): Json;
}

export function createRequestBuilder(entry: ModelEntry): RequestBuilder {
  const converted = new WeakMap<Message, WireMessage>();
  const tools = new WeakMap<readonly ToolSpec[], Json[]>();

  const convert = (message: Message): WireMessage => {
    let wire = converted.get(message);
    if (!wire) {
      wire = toWire(message, entry);
      converted.set(message, wire);
    }
    return wire;
  };

  const toolList = (specs: readonly ToolSpec[]): Json[] => {
    let list = tools.get(specs);
    if (!list) {
      const last = specs.length - 1;
      list = specs.map(({ name, description, parameters }, index) => ({
        name,
        description,
        input_schema: parameters,
        ...(index === last && entry.flags.cache_control && BREAKPOINT),
      }));
      tools.set(specs, list);
    }
    return list;
  };

  return {
    build(request) {
      const messages = arrange(request.messages.map(convert));
      const offered = request.tools.length > 0;
      return {
        model: entry.model,
        max_tokens: entry.maxOutputTokens,
        stream: true,
        ...thinkingFields(request, messages, entry),
        ...entry.extraBody,
        // A history with calls needs the field, even without a tool to offer.
        ...((offered || usesTools(messages)) && { tools: toolList(request.tools) }),
        ...(offered && !request.allowTools && { tool_choice: { type: 'none' } }),
        ...(request.system && {
          system: [{ type: 'text', text: request.system, ...(entry.flags.cache_control && BREAKPOINT) }],
        }),
        messages: entry.flags.cache_control ? marked(messages) : messages,
      };
    },
  };
}

/** Alternating roles, no empty message, and a question at the end. */
function arrange(list: WireMessage[]): WireMessage[] {
  const messages: WireMessage[] = [];
  for (const message of list) {
    if (message.content.length === 0) continue;
    const last = messages.at(-1);
    if (last?.role === message.role)
      messages[messages.length - 1] = { role: last.role, content: [...last.content, ...message.content] };
    else messages.push(message);
  }
  if (messages.at(-1)?.role === 'assistant')
    messages.push({ role: 'user', content: [{ type: 'text', text: 'Go on.' }] });
  return messages;
}

const usesTools = (messages: WireMessage[]): boolean =>
  messages.some(({ content }) =>
    content.some((block) => block.type === 'tool_use' || block.type === 'tool_result'),
  );

/** Breakpoints on the last block of the two newest messages: the next request finds its prefix at the older of them. */
function marked(messages: WireMessage[]): WireMessage[] {
  const from = Math.max(0, messages.length - 2);
  return [...messages.slice(0, from), ...messages.slice(from).map(mark)];
}

function mark(message: WireMessage): WireMessage {
  const at = message.content.findLastIndex(({ type }) => type !== 'thinking' && type !== 'redacted_thinking');
  if (at === -1) return message;
  return {
    ...message,
    content: message.content.map((block, index) => (index === at ? { ...block, ...BREAKPOINT } : block)),
  };
}

/**
 * With a thinking budget an answer that used tools must begin with its thinking. When it is another model's, and so was
 * left out, thinking has to stay off until the tools are through.
 */
function thinkingFields(request: ModelRequest, messages: WireMessage[], entry: ModelEntry): Json {
  const fields = request.thinking ? entry.thinking[request.thinking] : undefined;
  if (!fields) return {};
  const wanted = fields.thinking as Json | undefined;
  if (wanted?.type !== 'enabled') return fields;
  const answer = messages.findLast(({ role }) => role === 'assistant');
  const inChain = messages.at(-1)?.content.some(({ type }) => type === 'tool_result') === true;
  if (inChain && answer && !String(answer.content[0]?.type).endsWith('thinking')) return {};
  const budget = Number(wanted.budget_tokens);
  if (budget < entry.maxOutputTokens) return fields;
  // The budget must leave room for an answer.
  const room = Math.floor(entry.maxOutputTokens / 2);
  return room < 1024 ? {} : { ...fields, thinking: { ...wanted, budget_tokens: room } };
}
