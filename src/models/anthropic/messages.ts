// One message of ours → one of Anthropic's, whose shape ours follows. Pure; depends on the entry, never on other messages.
import type { Block, ImageBlock, Message, ThinkingBlock } from '../../domain/messages.ts';
import { callId } from '../call-ids.ts';
import { fileNote, imageNote, publicUrl } from '../media.ts';
import type { ModelEntry } from '../settings.ts';

export type Json = Record<string, unknown>;

export interface WireMessage {
  role: 'user' | 'assistant';
  content: Json[];
}

export function toWire(message: Message, entry: ModelEntry): WireMessage {
  const content = message.content.flatMap((block) => convert(block, entry));
  // Results stand before everything else in their message.
  if (message.role === 'user' && content.some((block) => block.type === 'tool_result'))
    content.sort((one, other) => Number(other.type === 'tool_result') - Number(one.type === 'tool_result'));
  if (content.length === 0 && message.role === 'user') content.push(text('(empty message)'));
  return { role: message.role, content };
}

function convert(block: Block, entry: ModelEntry): Json[] {
  switch (block.type) {
    case 'text':
      return block.text.trim() === '' ? [] : [text(block.text)];
    case 'thinking':
      return thinking(block, entry);
    case 'tool_use':
      return [{ type: 'tool_use', id: callId(block.id, 'anthropic'), name: block.name, input: block.input }];
    case 'tool_result': {
      const content = resultContent(block.content, entry);
      return [
        {
          type: 'tool_result',
          tool_use_id: callId(block.tool_use_id, 'anthropic'),
          ...(content.length > 0 && { content }),
          ...(block.is_error && { is_error: true }),
        },
      ];
    }
    case 'image':
      return [image(block, entry)];
    case 'file':
      return [text(fileNote(block))];
  }
}

const text = (value: string): Json => ({ type: 'text', text: value });

/** Signed reasoning goes back exactly as it came, and only to the model that signed it. */
function thinking(block: ThinkingBlock, entry: ModelEntry): Json[] {
  if (block.model !== entry.model) return [];
  if (block.redacted !== undefined) return [{ type: 'redacted_thinking', data: block.redacted }];
  if (block.field !== 'thinking') return [];
  if (!block.signature && !entry.flags.unsigned_thinking) return [];
  return [{ type: 'thinking', thinking: block.thinking, signature: block.signature ?? '' }];
}

const resultContent = (content: string | Block[], entry: ModelEntry): Json[] =>
  typeof content === 'string'
    ? content.trim() === ''
      ? []
      : [text(content)]
    : content.flatMap((block) => convert(block, entry));

function image(block: ImageBlock, entry: ModelEntry): Json {
  if (entry.images && block.data !== undefined)
    return { type: 'image', source: { type: 'base64', media_type: block.media_type, data: block.data } };
  const url = entry.images ? publicUrl(block) : undefined;
  return url === undefined
    ? text(imageNote(block, entry.images))
    : { type: 'image', source: { type: 'url', url } };
}
