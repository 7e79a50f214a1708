// What OpenAI (and the stricter of the compatible endpoints) answers 400 to, in their words.
import { badPicture } from './pictures.ts';
import { bad, isObject, objects, str, type Json, type Rejection } from './types.ts';

export interface OpenAIRules {
  /** Parameters this endpoint does not know (`stream_options`, `store`, …). */
  rejectParameters: string[];
  /** Roles beside user, assistant and tool. */
  systemRoles: string[];
  /** 400 when the history has calls and the request no `tools` (LiteLLM in front of Claude). */
  toolsWithCalls: boolean;
  /** Longest call id; OpenAI's is 40. */
  callId: RegExp;
  /** DeepSeek: content of a tool message must be a string. */
  stringToolContent: boolean;
  /** vLLM, Azure: user and assistant must alternate. */
  alternate: boolean;
  /** DeepSeek, Kimi: assistant messages need their reasoning once there are calls. Name of the field, or ''. */
  reasoningField: string;
}

export const openaiRules: OpenAIRules = {
  rejectParameters: [],
  systemRoles: ['system', 'developer'],
  toolsWithCalls: false,
  callId: /^[^\s]{1,40}$/,
  stringToolContent: false,
  alternate: false,
  reasoningField: '',
};

const KNOWN = new Set(
  (
    'model messages stream stream_options tools tool_choice parallel_tool_calls max_tokens max_completion_tokens ' +
    'temperature top_p stop n seed user store metadata response_format reasoning_effort prompt_cache_key ' +
    'prompt_cache_retention safety_identifier service_tier presence_penalty frequency_penalty logprobs verbosity'
  ).split(' '),
);

export function rejectOpenAI(
  body: Json,
  rules: OpenAIRules,
  extra: readonly string[] = [],
): Rejection | undefined {
  for (const key of Object.keys(body))
    if (rules.rejectParameters.includes(key) || !(KNOWN.has(key) || extra.includes(key)))
      return bad(`Unrecognized request argument supplied: ${key}`);
  if (str(body.model) === '') return bad('you must provide a model parameter');
  if (body.max_tokens !== undefined && body.max_completion_tokens !== undefined)
    return bad('max_tokens and max_completion_tokens cannot be set at the same time');
  if (body.stream_options !== undefined && body.stream !== true)
    return bad("The 'stream_options' parameter is only allowed when 'stream' is enabled.");
  if (!Array.isArray(body.messages) || body.messages.length === 0) return bad("[] is too short - 'messages'");
  return tools(body, rules) ?? messages(body.messages, rules);
}

function tools(body: Json, rules: OpenAIRules): Rejection | undefined {
  if (body.tools === undefined) {
    if (body.tool_choice !== undefined)
      return bad(
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
      );
    if (rules.toolsWithCalls && objects(body.messages).some((message) => message.tool_calls !== undefined))
      return bad(
        "litellm.UnsupportedParamsError: Anthropic expects the `tools=` param to be set if the conversation has tool calls. Set 'tools=[]'.",
      );
    return undefined;
  }
  if (!Array.isArray(body.tools)) return bad("Invalid type for 'tools': expected an array of objects.");
  if (body.tools.length === 0 && !rules.toolsWithCalls) return bad("[] is too short - 'tools'");
  for (const [index, tool] of body.tools.entries()) {
    const definition =
      isObject(tool) && tool.type === 'function' && isObject(tool.function) ? tool.function : undefined;
    if (!definition) return bad(`Missing required parameter: 'tools[${index}].function'.`);
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(str(definition.name)))
      return bad(
        `Invalid 'tools[${index}].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
      );
    if (
      definition.parameters !== undefined &&
      !(isObject(definition.parameters) && definition.parameters.type === 'object')
    )
      return bad(
        `Invalid schema for function '${str(definition.name)}': schema must be a JSON Schema of 'type: "object"'.`,
      );
  }
  return undefined;
}

function messages(list: unknown[], rules: OpenAIRules): Rejection | undefined {
  let open: string[] = [];
  let previous = '';
  let calls = false;
  for (const [index, message] of list.entries()) {
    const at = `messages[${index}]`;
    if (!isObject(message)) return bad(`Invalid type for '${at}': expected an object.`);
    const role = str(message.role);
    if (!['user', 'assistant', 'tool', ...rules.systemRoles].includes(role))
      return bad(
        `Invalid value: '${role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.`,
      );
    if (role === 'tool') {
      const id = str(message.tool_call_id);
      if (!open.includes(id))
        return bad(
          `Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. ('${at}', id '${id}')`,
        );
      open = open.filter((other) => other !== id);
      if (typeof message.content !== 'string') {
        if (rules.stringToolContent)
          return bad(
            `Failed to deserialize the JSON body into the target type: ${at}: invalid type: sequence, expected a string`,
          );
        const problem = parts(message.content, at, ['text']);
        if (problem) return problem;
      }
    } else {
      if (open.length > 0)
        return bad(
          `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.join(', ')}`,
        );
      if (rules.alternate && role === previous)
        return bad(
          'After the optional system message, conversation roles must alternate user/assistant/user/assistant/...',
        );
      if (rules.alternate && role === 'user' && previous === 'tool')
        return bad("Unexpected role 'user' after role 'tool'");
      const problem = role === 'assistant' ? assistant(message, at, rules) : content(message, at);
      if (problem) return problem;
      if (message.tool_calls !== undefined) {
        calls = true;
        open = objects(message.tool_calls).map((call) => str(call.id));
      }
    }
    previous = role;
  }
  if (open.length > 0)
    return bad(
      `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.join(', ')}`,
    );
  if (calls && rules.reasoningField) {
    const without = list.findIndex(
      (message) =>
        isObject(message) &&
        message.tool_calls !== undefined &&
        typeof message[rules.reasoningField] !== 'string',
    );
    if (without !== -1)
      return bad(`Missing \`${rules.reasoningField}\` field in the assistant message at index ${without}`);
  }
  return undefined;
}

function content(message: Json, at: string): Rejection | undefined {
  if (typeof message.content === 'string') return undefined;
  if (message.content === null || message.content === undefined)
    return bad(`Invalid value for 'content': expected a string, got null. ('${at}.content')`);
  return parts(message.content, at, ['text', 'image_url', 'input_audio', 'file']);
}

function assistant(message: Json, at: string, rules: OpenAIRules): Rejection | undefined {
  if (message.tool_calls === undefined) {
    const problem = content(message, at);
    if (problem) return problem;
    return message.content === '' || (Array.isArray(message.content) && message.content.length === 0)
      ? bad(`Invalid assistant message: content or tool_calls must be set ('${at}')`)
      : undefined;
  }
  if (!Array.isArray(message.tool_calls) || message.tool_calls.length === 0)
    return bad(
      `Invalid '${at}.tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.`,
    );
  const seen = new Set<string>();
  for (const [n, call] of message.tool_calls.entries()) {
    const path = `${at}.tool_calls[${n}]`;
    if (!isObject(call) || call.type !== 'function' || !isObject(call.function))
      return bad(`Missing required parameter: '${path}.function'.`);
    const id = str(call.id);
    if (!rules.callId.test(id))
      return bad(
        `Invalid '${path}.id': got '${id}' (length ${id.length}), expected ${String(rules.callId)}.`,
      );
    if (seen.has(id)) return bad(`Duplicate value for '${path}.id': '${id}'`);
    seen.add(id);
    if (str(call.function.name) === '') return bad(`Invalid '${path}.function.name': empty string.`);
    if (typeof call.function.arguments !== 'string')
      return bad(`Invalid type for '${path}.function.arguments': expected a string.`);
    try {
      if (!isObject(JSON.parse(call.function.arguments))) throw new TypeError('not an object');
    } catch {
      return bad(`Invalid '${path}.function.arguments': expected a JSON object.`);
    }
  }
  return message.content === null || message.content === undefined || typeof message.content === 'string'
    ? undefined
    : parts(message.content, at, ['text']);
}

function parts(value: unknown, at: string, allowed: string[]): Rejection | undefined {
  if (!Array.isArray(value) || value.length === 0)
    return bad(`Invalid type for '${at}.content': expected a string or a non-empty array of objects.`);
  for (const [index, part] of value.entries()) {
    if (!isObject(part) || !allowed.includes(str(part.type)))
      return bad(
        `Invalid value: '${isObject(part) ? str(part.type) : typeof part}'. Supported values are: ${allowed.join(', ')}. ('${at}.content[${index}].type')`,
      );
    const wrong = badPicture(part);
    if (wrong !== undefined) return bad(`Invalid image ('${at}.content[${index}].image_url'): ${wrong}`);
  }
  return undefined;
}
