// One message of ours → messages of a chat completion. Pure; depends on the entry's flags, never on other messages.
import type {
  Block,
  ImageBlock,
  Message,
  TextBlock,
  ThinkingBlock,
  ToolResultBlock,
  ToolUseBlock,
} from '../../domain/messages.ts';
import { callId } from '../call-ids.ts';
import { fileNote, imageNote, imageUrl } from '../media.ts';
import type { ModelEntry } from '../settings.ts';
import { wholeCharacters } from '../whole-characters.ts';

type Json = Record<string, unknown>;

export interface WireMessage {
  role: string;
  content: string | Json[] | null;
  tool_calls?: Json[];
  tool_call_id?: string;
  [field: string]: unknown;
}

export function toWire(message: Message, entry: ModelEntry): WireMessage[] {
  return message.role === 'assistant' ? assistant(message.content, entry) : user(message.content, entry);
}

/** Results become messages of their own; pictures in them follow, since a tool message holds only text. */
function user(content: Block[], entry: ModelEntry): WireMessage[] {
  const messages: WireMessage[] = [];
  const parts: Json[] = [];
  for (const block of content) {
    if (block.type !== 'tool_result') continue;
    messages.push({
      role: 'tool',
      tool_call_id: callId(block.tool_use_id, entry.flags.call_ids),
      content: resultText(block, entry),
    });
    if (typeof block.content === 'string' || !entry.images) continue;
    const images = block.content.filter((part) => part.type === 'image' && imageUrl(part) !== undefined);
    if (images.length > 0)
      parts.push(
        textPart('Pictures from the tool result:'),
        ...images.flatMap((part) => userPart(part, entry)),
      );
  }
  for (const block of content) parts.push(...userPart(block, entry));
  if (parts.length > 0) messages.push({ role: 'user', content: plainIfText(parts) });
  // A message must not vanish: roles would no longer alternate, and its sender would be ignored.
  else if (messages.length === 0) messages.push({ role: 'user', content: '(empty message)' });
  return messages;
}

function resultText(block: ToolResultBlock, entry: ModelEntry): string {
  if (typeof block.content === 'string') return block.content || '(no output)';
  const text = block.content
    .map((part) => (part.type === 'text' ? part.text : resultImage(part, entry)))
    .filter((part) => part !== '')
    .join('\n');
  return text || '(no output)';
}

const resultImage = (block: ImageBlock, entry: ModelEntry): string =>
  entry.images && imageUrl(block) !== undefined ? '(picture below)' : imageNote(block, entry.images);

function userPart(block: Block, entry: ModelEntry): Json[] {
  if (block.type === 'text') return block.text.trim() === '' ? [] : [textPart(block.text)];
  if (block.type === 'file') return [textPart(fileNote(block))];
  if (block.type !== 'image') return [];
  const url = entry.images ? imageUrl(block) : undefined;
  return [
    url === undefined ? textPart(imageNote(block, entry.images)) : { type: 'image_url', image_url: { url } },
  ];
}

const textPart = (text: string): Json => ({ type: 'text', text });

/** Old and small servers know strings only. */
const plainIfText = (parts: Json[]): string | Json[] =>
  parts.every((part) => part.type === 'text') ? parts.map((part) => String(part.text)).join('\n\n') : parts;

function assistant(content: Block[], entry: ModelEntry): WireMessage[] {
  const text = content
    .filter((block): block is TextBlock => block.type === 'text')
    .map((block) => block.text)
    .join('');
  const calls = content.filter((block): block is ToolUseBlock => block.type === 'tool_use');
  if (text.trim() === '' && calls.length === 0) return [];
  const inline = entry.flags.reasoning === 'tags' ? inlineReasoning(content, entry) : '';
  const said = inline + (text.trim() === '' ? '' : text);
  return [
    {
      role: 'assistant',
      ...reasoning(content, entry),
      content: said || null,
      ...(calls.length > 0 && { tool_calls: calls.map((call, index) => wireCall(call, index, entry)) }),
    },
  ];
}

/** Google's word for "this signature is not to be checked": calls of another model have none. */
const NO_SIGNATURE = { extra_content: { google: { thought_signature: 'skip_thought_signature_validator' } } };

function wireCall(call: ToolUseBlock, index: number, { flags }: ModelEntry): Json {
  const extra = flags.call_extras ? call.extra : undefined;
  return {
    id: callId(call.id, flags.call_ids),
    type: 'function',
    function: { name: call.name, arguments: wholeCharacters(JSON.stringify(call.input)) },
    // The first of parallel calls carries the signature.
    ...(extra ?? (flags.call_signatures && index === 0 ? NO_SIGNATURE : {})),
  };
}

const own = (content: Block[], entry: ModelEntry): ThinkingBlock[] =>
  content.filter((block): block is ThinkingBlock => block.type === 'thinking' && block.model === entry.model);

const inlineReasoning = (content: Block[], entry: ModelEntry): string => {
  const thought = own(content, entry)
    .map((block) => block.thinking)
    .join('');
  return thought ? `<think>\n${thought.trim()}\n</think>\n\n` : '';
};

/** The fields that give a model its reasoning back, whole. */
function reasoning(content: Block[], entry: ModelEntry): Json {
  const { reasoning: mode, reasoning_field: field } = entry.flags;
  if (mode === 'drop' || mode === 'tags') return {};
  const fields: Json = {};
  for (const block of own(content, entry)) {
    if (!block.field) continue;
    if (block.field === 'reasoning_details') {
      if (block.signature) fields.reasoning_details = JSON.parse(block.signature) as unknown;
      continue;
    }
    const name = field || block.field;
    fields[name] = (typeof fields[name] === 'string' ? fields[name] : '') + block.thinking;
  }
  // Reasoning of another model, or none at all: the vendor insists on the field all the same.
  if (mode === 'required') fields[field || 'reasoning_content'] ??= '';
  return fields;
}
