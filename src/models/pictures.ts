// Model layer: pictures of the media store on their way to a model that can see. The history names them by reference; here,
// around one entry's client, the newest are read and put into the request, and what isn't shown is named in words.
//
// The choice is made so that an earlier request stays a prefix of the later one: pictures leave in halves, not one by one.
import type { Block, ImageBlock, Message, TextBlock } from '../domain/messages.ts';
import type { Logger } from '../ports/log.ts';
import type { MediaStore } from '../ports/media.ts';
import type { ModelClient, ModelError, ModelEvent, ModelRequest } from '../ports/model.ts';
import { imageNote, publicUrl } from './media.ts';

export interface PictureSettings {
  /** In one request, at most. */
  max: number;
  /** A larger one is named in words: vendors refuse it. */
  max_bytes: number;
  /** Of one request, together. */
  total_bytes: number;
}

export interface PictureOptions {
  media: Pick<MediaStore, 'get'>;
  settings: PictureSettings;
  log: Logger;
}

/** What models take; also what the store recognises by its bytes. */
const SEEN: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
/** Of a picture whose size isn't known. */
const ASSUMED_BYTES = 1_000_000;
const MAX_REMEMBERED = 10_000;
const TOO_LARGE = 'that is too large to be shown to you';
const OLDER = 'older than those that are shown to you';

/** A client that takes no pictures is returned as it is: its requests name them. */
export function withPictures(client: ModelClient, { media, settings, log }: PictureOptions): ModelClient {
  if (!client.images) return client;
  const known = new WeakMap<Message, boolean>();
  /** References that the vendor has taken, and those that it has refused: one bad picture must not end a conversation. */
  const taken = new Set<string>();
  const refused = new Set<string>();

  const holdsPictures = (message: Message): boolean => {
    let holds = known.get(message);
    if (holds === undefined) known.set(message, (holds = picturesIn([message]).next().done !== true));
    return holds;
  };

  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    const holding = request.messages.filter(holdsPictures);
    if (holding.length === 0) {
      yield* client.stream(request, signal);
      return;
    }
    for (;;) {
      const chosen = choose(holding, settings);
      const shown = await read(chosen);
      const show = (block: ImageBlock): ImageBlock | TextBlock => {
        if (block.data !== undefined || block.ref === undefined) return block;
        if (chosen.has(block)) return shown.get(block.ref) ?? block;
        return (block.size ?? 0) > settings.max_bytes ? words(block, TOO_LARGE) : words(block, OLDER);
      };
      const messages = request.messages.map((message) =>
        holdsPictures(message) ? replaced(message, show) : message,
      );
      let again = false;
      let begun = false;
      for await (const event of client.stream({ ...request, messages }, signal)) {
        again =
          !begun && event.type === 'failed' && isAboutPictures(event.error) && learn(chosen, event.error);
        if (again) break;
        if (event.type === 'done') for (const ref of refsOf(chosen)) remember(taken, ref);
        begun = true;
        yield event;
      }
      if (!again) return;
    }
  }

  /** What is shown in a picture's place: with its bytes, or words. */
  async function read(chosen: ReadonlySet<ImageBlock>): Promise<Map<string, ImageBlock | TextBlock>> {
    const shown = new Map<string, ImageBlock | TextBlock>();
    for (const block of chosen) {
      const { ref } = block;
      if (ref === undefined || shown.has(ref)) continue;
      shown.set(
        ref,
        refused.has(ref) ? words(block, 'that could not be shown to you') : await readOne(ref, block),
      );
    }
    return shown;
  }

  async function readOne(ref: string, block: ImageBlock): Promise<ImageBlock | TextBlock> {
    try {
      // The vendor fetches it.
      if (publicUrl(block) !== undefined) return block;
      const file = await media.get(ref);
      if (!file) return { type: 'text', text: imageNote(block, true) };
      const { bytes, media_type } = file;
      if (!SEEN.has(media_type)) return words(block, `of a kind that can't be shown to you (${media_type})`);
      if (file.size > settings.max_bytes) return words(block, TOO_LARGE);
      return { type: 'image', media_type, data: bytes.toString('base64') };
    } catch (error) {
      log.warn({ model: client.name, error }, 'a picture could not be read: the model is told so');
      return words(block, "that can't be read at the moment");
    }
  }

  /** True if there is something to leave out: what was never taken before, else all of them. */
  function learn(chosen: ReadonlySet<ImageBlock>, error: ModelError | undefined): boolean {
    const sent = refsOf(chosen).filter((ref) => !refused.has(ref));
    if (sent.length === 0) return false;
    const suspect = sent.filter((ref) => !taken.has(ref));
    for (const ref of suspect.length > 0 ? suspect : sent) remember(refused, ref);
    log.warn(
      { model: client.name, error: error?.message },
      'the model refused a picture: asking again without it; images: false in its entry if it can see none',
    );
    return true;
  }

  return { ...client, stream };
}

/** Pictures by reference, oldest first. */
function* picturesIn(messages: readonly Message[]): Generator<ImageBlock> {
  for (const { content } of messages) {
    for (const block of content) {
      if (block.type === 'image' && block.data === undefined) yield block;
      if (block.type !== 'tool_result' || typeof block.content === 'string') continue;
      for (const part of block.content) if (part.type === 'image' && part.data === undefined) yield part;
    }
  }
}

/**
 * The newest pictures that keep within the bounds. When one more goes beyond them the oldest are dropped until half the
 * bounds are free, so that the next ones change nothing that was sent before.
 */
function choose(
  messages: readonly Message[],
  { max, max_bytes, total_bytes }: PictureSettings,
): Set<ImageBlock> {
  const sizeOf = (block: ImageBlock) =>
    publicUrl(block) ? 0 : (block.size ?? Math.min(ASSUMED_BYTES, max_bytes));
  const chosen = new Set<ImageBlock>();
  let bytes = 0;
  for (const block of picturesIn(messages)) {
    const size = sizeOf(block);
    // Too large in any case: words, which cost nothing.
    if (size > max_bytes) continue;
    chosen.add(block);
    bytes += size;
    if (chosen.size <= max && bytes <= total_bytes) continue;
    for (const oldest of chosen) {
      if (oldest === block || (chosen.size <= max / 2 && bytes <= total_bytes / 2)) break;
      chosen.delete(oldest);
      bytes -= sizeOf(oldest);
    }
  }
  return chosen;
}

/** A copy with each picture replaced. */
function replaced(message: Message, show: (block: ImageBlock) => ImageBlock | TextBlock): Message {
  const content = message.content.map((block): Block => {
    if (block.type === 'image') return show(block);
    if (block.type !== 'tool_result' || typeof block.content === 'string') return block;
    return { ...block, content: block.content.map((part) => (part.type === 'image' ? show(part) : part)) };
  });
  return { role: message.role, content };
}

const words = ({ media_type }: ImageBlock, what: string): TextBlock => ({
  type: 'text',
  text: `(a picture, ${media_type}, ${what})`,
});

const refsOf = (blocks: Iterable<ImageBlock>): string[] => [...blocks].flatMap(({ ref }) => ref ?? []);

function remember(set: Set<string>, ref: string): void {
  if (set.size >= MAX_REMEMBERED) set.clear();
  set.add(ref);
}

/** `Could not process image`, `unknown variant image_url`, 图片格式不支持, … */
const isAboutPictures = (error: ModelError | undefined): boolean =>
  error?.kind === 'invalid' && /image|picture|base64|图片|图像/i.test(error.message);
