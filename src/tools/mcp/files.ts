// Pictures, sounds and binary files in what an MCP tool answers → files for people, where the server's settings say so.
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/sdk/types.js';
import { AppError } from '../../domain/errors.ts';
import type { MediaStore } from '../../ports/media.ts';
import type { ToolAttachment } from '../../ports/tool.ts';

/** What the store refuses is left out: the result names it. */
export async function filesIn({ content }: CallToolResult, media: MediaStore): Promise<ToolAttachment[]> {
  const kept = await Promise.all(
    content.map(async (block) => {
      const file = fileOf(block);
      return file && media.put(file).catch(orRefused);
    }),
  );
  return kept.filter((file) => file !== undefined);
}

function orRefused(error: unknown): undefined {
  if (error instanceof AppError && error.code === 'media_refused') return undefined;
  throw error;
}

function fileOf(block: ContentBlock): Parameters<MediaStore['put']>[0] | undefined {
  if (block.type === 'image' || block.type === 'audio')
    return { bytes: Buffer.from(block.data, 'base64'), media_type: block.mimeType };
  if (block.type !== 'resource' || !('blob' in block.resource)) return undefined;
  const { blob, mimeType, uri } = block.resource;
  const name = uri.split(/[/?#]/).findLast((part) => part !== '');
  return {
    bytes: Buffer.from(blob, 'base64'),
    ...(mimeType === undefined ? {} : { media_type: mimeType }),
    ...(name === undefined ? {} : { name }),
  };
}
