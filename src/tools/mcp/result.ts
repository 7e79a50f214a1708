// What an MCP tool answers → what the model reads. Texts and pictures pass; what a model can't read is named in words.
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/sdk/types.js';
import type { ImageBlock, TextBlock } from '../../domain/messages.ts';
import { fail, success, type ToolResult } from '../../ports/tool.ts';

const MAX_DISPLAY_CHARS = 100;

/** `sent`: what the model can't read goes to people as a file. */
export function toolResult(result: CallToolResult, title: string, sent = false): ToolResult {
  const blocks = result.content.map((block) => blockOf(block, sent));
  const said = blocks.some((block) => block.type === 'image' || block.text !== '');
  // The protocol asks servers to give structured content as text as well; not all do.
  if (!said && result.structuredContent !== undefined)
    blocks.push({ type: 'text', text: JSON.stringify(result.structuredContent) });
  const texts = blocks.filter((block) => block.type === 'text').map(({ text }) => text);
  const content = texts.length === blocks.length ? texts.join('\n') : blocks;
  const [line = ''] = (texts[0] ?? '').trim().split('\n', 1);
  const short = line.length > MAX_DISPLAY_CHARS ? `${line.slice(0, MAX_DISPLAY_CHARS - 1)}…` : line;
  const display = short === '' ? title : `${title}: ${short}`;
  return result.isError === true ? fail(content, { display }) : success(content, { display });
}

function blockOf(block: ContentBlock, sent: boolean): TextBlock | ImageBlock {
  const fate = (unsent: string): string => (sent ? 'that goes to the user with your answer' : unsent);
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'image':
      return { type: 'image', media_type: block.mimeType, data: block.data };
    case 'audio':
      return note(`a sound, ${block.mimeType}, ${fate("that can't be played here")}`);
    case 'resource': {
      const { resource } = block;
      if ('text' in resource) return { type: 'text', text: `${resource.uri}:\n${resource.text}` };
      return note(
        `a file, ${resource.uri}, ${resource.mimeType ?? 'of unknown type'}, ${fate('not shown here')}`,
      );
    }
    case 'resource_link':
      return note(`a link to ${block.uri}: ${block.title ?? block.name}`);
  }
}

const note = (text: string): TextBlock => ({ type: 'text', text: `(${text})` });
