// Files in the results of tools. Pictures that come as base64 are put into the media store, so that histories, journals and
// events hold references only; files for people are collected from the run's results and go with its answer.
import { AppError } from '../domain/errors.ts';
import type { Attachment } from '../domain/inbound.ts';
import type { ImageBlock, TextBlock } from '../domain/messages.ts';
import type { MediaStore } from '../ports/media.ts';
import type { ToolResult } from '../ports/tool.ts';
import type { AgentEntry } from './types.ts';

/** Files of one answer: platforms show each as a message of its own. */
const MAX_ATTACHMENTS = 10;
const MAX_NAME_CHARS = 256;

/** Stands where there is no store: nothing can be kept. */
export const NO_MEDIA: MediaStore = {
  maxBytes: 0,
  put: () => Promise.reject(new AppError('media_refused', 'Files are not kept here.')),
  get: () => Promise.resolve(undefined),
};

type Part = TextBlock | ImageBlock;

const holdsBytes = (part: Part): part is ImageBlock => part.type === 'image' && part.data !== undefined;

export const hasBytes = ({ content }: ToolResult): boolean =>
  typeof content !== 'string' && content.some(holdsBytes);

/** The result with a reference in place of each picture's bytes, or with words where it isn't taken. */
export async function keepPictures(media: MediaStore, result: ToolResult): Promise<ToolResult> {
  const { content } = result;
  if (typeof content === 'string') return result;
  const keep = async (part: Part): Promise<Part> => {
    if (!holdsBytes(part)) return part;
    try {
      const bytes = Buffer.from(part.data ?? '', 'base64');
      const { ref, media_type, size } = await media.put({ bytes, media_type: part.media_type });
      return { type: 'image', ref, media_type, size };
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'media_refused') throw error;
      return note(part, `that was not kept: ${error.message}`);
    }
  };
  return { ...result, content: await Promise.all(content.map(keep)) };
}

/** Never bytes: what a hook put into a result later is named. */
export const withoutBytes = (content: ToolResult['content']): ToolResult['content'] =>
  typeof content === 'string' || !content.some(holdsBytes)
    ? content
    : content.map((part) => (holdsBytes(part) ? note(part, 'that was not kept') : part));

const note = ({ media_type }: ImageBlock, what: string): TextBlock => ({
  type: 'text',
  text: `(a picture, ${media_type}, ${what})`,
});

/** What a tool gave as attachments, as far as it is some: tools are anybody's. */
export function attachmentsOf({ attachments }: ToolResult): Attachment[] {
  if (!Array.isArray(attachments)) return [];
  return attachments.flatMap((given): Attachment[] => {
    const { type, ref, media_type, name, size } = given;
    if (typeof ref !== 'string' || !/^(?:media:[0-9a-f]{64}\.[a-z0-9]+$|https?:\/\/)/.test(ref)) return [];
    return [
      {
        type: type !== undefined && KINDS.has(type) ? type : kindOf(media_type),
        ref,
        ...(typeof media_type === 'string' ? { media_type } : {}),
        ...(typeof name === 'string' && name !== '' ? { name: name.slice(0, MAX_NAME_CHARS) } : {}),
        ...(typeof size === 'number' ? { size } : {}),
      },
    ];
  });
}

const KINDS: ReadonlySet<string> = new Set<Attachment['type']>(['image', 'file', 'audio', 'video']);

function kindOf(media_type: unknown): Attachment['type'] {
  const kind = String(media_type).split('/')[0] ?? '';
  // A drawing (SVG) is a document: not every platform shows it as a picture.
  return KINDS.has(kind) && kind !== 'file' && media_type !== 'image/svg+xml'
    ? (kind as Attachment['type'])
    : 'file';
}

/** Of a run's new messages: each file once, in order. Those of an interrupted attempt are among them. */
export function attachmentsIn(entries: readonly AgentEntry[]): Attachment[] {
  const found = new Map<string, Attachment>();
  for (const { message } of entries) {
    if (message.role === 'assistant') continue;
    for (const block of message.content) {
      if (block.type !== 'tool_result' || !block.attachments) continue;
      for (const file of block.attachments) if (!found.has(file.ref)) found.set(file.ref, file);
    }
  }
  return [...found.values()].slice(0, MAX_ATTACHMENTS);
}
