// What Anthropic answers 400 to, in its words.
import { signatureOf } from './anthropic-wire.ts';
import { badPicture } from './pictures.ts';
import { bad, isObject, objects, str, type Json, type Rejection } from './types.ts';

export interface AnthropicRules {
  /** 400 when the history has calls and the request no `tools`. */
  toolsWithCalls: boolean;
  /** 400 when two messages of one role follow each other (the vendor merges them nowadays, its copies do not). */
  alternate: boolean;
  /** 400 when a thinking block is not exactly as it was sent. */
  signatures: boolean;
}

export const anthropicRules: AnthropicRules = { toolsWithCalls: true, alternate: true, signatures: true };

const CALL_ID = /^[a-zA-Z0-9_-]{1,64}$/;
const KNOWN = new Set(
  (
    'model messages system max_tokens stream tools tool_choice temperature top_p top_k stop_sequences metadata ' +
    'thinking output_config service_tier cache_control container'
  ).split(' '),
);

export function rejectAnthropic(
  body: Json,
  rules: AnthropicRules,
  extra: readonly string[] = [],
): Rejection | undefined {
  for (const key of Object.keys(body))
    if (!KNOWN.has(key) && !extra.includes(key)) return bad(`${key}: Extra inputs are not permitted`);
  if (str(body.model) === '') return bad('model: Field required');
  if (typeof body.max_tokens !== 'number') return bad('max_tokens: Field required');
  if (isObject(body.thinking) && body.thinking.type === 'enabled') {
    const budget = body.thinking.budget_tokens;
    if (typeof budget !== 'number' || budget < 1024)
      return bad('thinking.enabled.budget_tokens: Input should be greater than or equal to 1024');
    if (budget >= body.max_tokens) return bad('`max_tokens` must be greater than `thinking.budget_tokens`.');
    if (body.temperature !== undefined && body.temperature !== 1)
      return bad('`temperature` may only be set to 1 when thinking is enabled.');
  }
  if (!Array.isArray(body.messages) || body.messages.length === 0)
    return bad('messages: at least one message is required');
  for (const [index, block] of objects(body.system).entries())
    if (block.type !== 'text' || str(block.text) === '')
      return bad(`system.${index}: text content blocks must be non-empty`);
  return cacheMarks(body) ?? tools(body, rules) ?? messages(body.messages, str(body.model), rules);
}

function cacheMarks(body: Json): Rejection | undefined {
  const blocks = [
    ...objects(body.tools),
    ...objects(body.system),
    ...objects(body.messages).flatMap((message) => objects(message.content)),
  ];
  const marked = blocks.filter((block) => block.cache_control !== undefined);
  if (marked.length > 4)
    return bad(`A maximum of 4 blocks with cache_control may be provided. Found ${marked.length}.`);
  if (marked.some((block) => block.type === 'thinking' || block.type === 'redacted_thinking'))
    return bad('cache_control cannot be set for thinking blocks');
  if (marked.some((block) => block.type === 'text' && block.text === ''))
    return bad('cache_control cannot be set for empty text blocks');
  return undefined;
}

function tools(body: Json, rules: AnthropicRules): Rejection | undefined {
  if (body.tools === undefined) {
    const used = objects(body.messages).some((message) =>
      objects(message.content).some((block) => block.type === 'tool_use' || block.type === 'tool_result'),
    );
    if (used && rules.toolsWithCalls)
      return bad('Requests which include `tool_use` or `tool_result` blocks must define tools');
    if (body.tool_choice !== undefined) return bad('tool_choice may only be specified while providing tools');
    return undefined;
  }
  if (!Array.isArray(body.tools)) return bad('tools: Input should be a valid list');
  for (const [index, tool] of body.tools.entries()) {
    if (!isObject(tool) || !/^[a-zA-Z0-9_-]{1,128}$/.test(str(tool.name)))
      return bad(`tools.${index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`);
    if (!isObject(tool.input_schema) || tool.input_schema.type !== 'object')
      return bad(`tools.${index}.custom.input_schema.type: Field required`);
  }
  return undefined;
}

function messages(list: unknown[], model: string, rules: AnthropicRules): Rejection | undefined {
  let open: string[] = [];
  let previous = '';
  const used = new Set<string>();
  for (const [index, message] of list.entries()) {
    const at = `messages.${index}`;
    if (!isObject(message)) return bad(`${at}: Input should be a valid dictionary`);
    const role = str(message.role);
    if (role !== 'user' && role !== 'assistant')
      return bad(
        `messages: Unexpected role "${role}". The Messages API accepts a top-level \`system\` parameter, not "system" as an input message role.`,
      );
    if (index === 0 && role !== 'user') return bad('messages: first message must use the "user" role');
    if (rules.alternate && role === previous)
      return bad(
        `messages: roles must alternate between "user" and "assistant", but found multiple "${role}" roles in a row`,
      );
    previous = role;
    const last = index === list.length - 1;
    const blocks =
      typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
    if (!Array.isArray(blocks) || (blocks.length === 0 && !(last && role === 'assistant')))
      return bad(
        `${at}: all messages must have non-empty content except for the optional final assistant message`,
      );
    const problem =
      role === 'user' ? user(blocks, at, open) : assistant(blocks, at, { model, rules, used, last });
    if (problem) return problem;
    open =
      role === 'assistant'
        ? objects(blocks)
            .filter((block) => block.type === 'tool_use')
            .map((block) => str(block.id))
        : [];
  }
  return open.length > 0 ? unpaired(list.length - 1, open) : undefined;
}

const unpaired = (index: number, ids: string[]): Rejection =>
  bad(
    `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids.join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  );

function user(blocks: unknown[], at: string, open: string[]): Rejection | undefined {
  let waiting = open;
  let others = false;
  for (const [n, block] of blocks.entries()) {
    const path = `${at}.content.${n}`;
    if (!isObject(block)) return bad(`${path}: Input should be a valid dictionary`);
    if (block.type === 'tool_result') {
      const id = str(block.tool_use_id);
      if (!waiting.includes(id))
        return bad(
          `${path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
        );
      if (others) return bad(`${path}: \`tool_result\` blocks must come before other content in the message`);
      waiting = waiting.filter((other) => other !== id);
      const inner = typeof block.content === 'string' ? [] : objects(block.content);
      if (inner.some((part) => part.type === 'text' && str(part.text) === ''))
        return bad(`${path}: text content blocks must be non-empty`);
      if (inner.some((part) => part.type !== 'text' && part.type !== 'image'))
        return bad(`${path}.content: Input tag does not match any of the expected tags: 'text', 'image'`);
      const wrong = inner.map(badPicture).find((problem) => problem !== undefined);
      if (wrong !== undefined) return bad(`${path}.content.image.source.base64: ${wrong}`);
    } else if (block.type === 'text' || block.type === 'image' || block.type === 'document') {
      others = true;
      if (block.type === 'text' && str(block.text).trim() === '')
        return bad('messages: text content blocks must contain non-whitespace text');
      const wrong = badPicture(block);
      if (wrong !== undefined) return bad(`${path}.image.source.base64: ${wrong}`);
    } else return bad(`${path}: Input tag '${str(block.type)}' found using 'type' is not allowed here`);
  }
  return waiting.length > 0 ? unpaired(Number(at.slice(9)) - 1, waiting) : undefined;
}

interface AssistantCheck {
  model: string;
  rules: AnthropicRules;
  used: Set<string>;
  last: boolean;
}

function assistant(blocks: unknown[], at: string, check: AssistantCheck): Rejection | undefined {
  for (const [n, block] of blocks.entries()) {
    const path = `${at}.content.${n}`;
    if (!isObject(block)) return bad(`${path}: Input should be a valid dictionary`);
    if (block.type === 'text') {
      const text = str(block.text);
      if (text.trim() === '') return bad('messages: text content blocks must contain non-whitespace text');
      if (check.last && n === blocks.length - 1 && text !== text.trimEnd())
        return bad('messages: final assistant content cannot end with trailing whitespace');
    } else if (block.type === 'tool_use') {
      const id = str(block.id);
      if (!CALL_ID.test(id))
        return bad(`${path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$' (at most 64)`);
      if (check.used.has(id)) return bad('messages: `tool_use` ids must be unique');
      check.used.add(id);
      if (!isObject(block.input)) return bad(`${path}.tool_use.input: Input should be a valid dictionary`);
    } else if (block.type === 'thinking') {
      if (typeof block.signature !== 'string') return bad(`${path}.thinking.signature: Field required`);
      if (check.rules.signatures && block.signature !== signatureOf(check.model, str(block.thinking)))
        return bad(`${path}: Invalid \`signature\` in \`thinking\` block`);
    } else if (block.type !== 'redacted_thinking')
      return bad(`${path}: Input tag '${str(block.type)}' found using 'type' is not allowed here`);
  }
  return undefined;
}
