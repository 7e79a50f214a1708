// A message of wechaty's → what is handed to the server.
import type { FileBoxInterface } from 'file-box';
import type { MessageInterface, RoomInterface } from 'wechaty/impls';
import { types, type Puppet } from 'wechaty-puppet';
import type { Handed, HandedFile } from '../ipc.ts';

export interface ReadOptions {
  puppet: Pick<InstanceType<typeof Puppet>, 'messageUrl' | 'messageLocation'>;
  /** Our own id. */
  self: string;
  maxFileBytes: number;
  /** Files of group messages that don't mention us, too. */
  groupFiles: boolean;
  report(error: unknown): void;
}

const KINDS = new Map<number, HandedFile['kind']>([
  [types.Message.Image, 'image'],
  [types.Message.Emoticon, 'image'],
  [types.Message.Attachment, 'file'],
  [types.Message.Audio, 'audio'],
  [types.Message.Video, 'video'],
]);
/** A download that takes longer is given up. */
const DOWNLOAD_MS = 60_000;
/** The service's own accounts, which aren't people. */
const SERVICE = new Set(['weixin', 'filehelper', 'fmessage', 'newsapp', 'medianote', 'floatbottle']);

/** Undefined: nothing that anybody has said. Rejects if the puppet can't tell who or where. */
export async function readMessage(
  message: MessageInterface,
  options: ReadOptions,
): Promise<Handed | undefined> {
  const { self, report } = options;
  const talker = message.talker();
  const room = message.room();
  if (talker.id === self || SERVICE.has(talker.id) || talker.type() === types.Contact.Official)
    return undefined;

  const mentioned = room === undefined || (await orElse(() => message.mentionSelf(), false, report));
  const name = talker.name();
  const shown = room && (await orElse(() => room.alias(talker), undefined, report));
  const alias = room ? undefined : await orElse(() => talker.alias(), undefined, report);
  const content = await contentOf(message, mentioned, options);
  if (content.text.trim() === '' && content.files.length === 0 && content.notes.length === 0)
    return undefined;
  return {
    id: message.id,
    at: message.date().getTime(),
    self,
    chat: room
      ? { id: room.id, name: await orElse(() => room.topic(), '', report) }
      : { id: talker.id, name },
    group: room !== undefined,
    sender: { id: talker.id, name: shown || name, ...(alias ? { alias } : {}) },
    mentioned,
    ...content,
  };
}

type Content = Pick<Handed, 'text' | 'files' | 'notes'>;

async function contentOf(
  message: MessageInterface,
  mentioned: boolean,
  options: ReadOptions,
): Promise<Content> {
  const { puppet, report } = options;
  const type = message.type();
  const room = message.room();
  const kind = KINDS.get(type);
  if (kind) {
    if (room && !mentioned && !options.groupFiles) return nothingBut(`(${kind})`);
    try {
      return {
        text: '',
        files: [await download(kind, await message.toFileBox(), options.maxFileBytes)],
        notes: [],
      };
    } catch (error) {
      report(error);
      return nothingBut(`(a file of type ${kind} that could not be fetched)`);
    }
  }
  switch (type) {
    case types.Message.Text: {
      const text = mentioned && room ? await withoutMention(message, room, options) : message.text();
      return { text, files: [], notes: [] };
    }
    case types.Message.Url: {
      const link = await orElse(() => puppet.messageUrl(message.id), undefined, report);
      return nothingBut(link ? `(a link: ${link.title} ${link.url})` : '(a link)');
    }
    case types.Message.Location: {
      const place = await orElse(() => puppet.messageLocation(message.id), undefined, report);
      return nothingBut(place ? `(a place: ${place.name}, ${place.address})` : '(a place)');
    }
    case types.Message.Contact:
      return nothingBut('(a contact card)');
    case types.Message.MiniProgram:
      return nothingBut('(a mini program)');
    // Notices of the system, red packets, calls, and what a puppet doesn't know.
    default:
      return { text: '', files: [], notes: [] };
  }
}

const nothingBut = (note: string): Content => ({ text: '', files: [], notes: [note] });

/** wechaty takes every mention off; who else was mentioned is part of what was said. */
async function withoutMention(
  message: MessageInterface,
  room: RoomInterface,
  options: ReadOptions,
): Promise<string> {
  const { self, report } = options;
  const mentions = await orElse(() => message.mentionList(), [], report);
  const us = mentions.find(({ id }) => id === self);
  if (!us || mentions.every(({ id }) => id === self))
    return orElse(() => message.mentionText(), message.text(), report);
  const names = [await orElse(() => room.alias(us), undefined, report), us.name()];
  return withoutName(
    message.text(),
    names.filter((name) => name !== undefined && name !== ''),
  );
}

/** A mention ends with a four-per-em space, a space, or the text. */
function withoutName(text: string, names: (string | undefined)[]): string {
  for (const name of names) {
    for (const end of ['\u2005', ' ', '']) {
      const mark = `@${name}${end}`;
      const found = text.indexOf(mark);
      if (found === -1 || (end === '' && found + mark.length < text.length)) continue;
      return `${text.slice(0, found)}${text.slice(found + mark.length)}`.trim();
    }
  }
  return text;
}

/** Rejects if it is too large or takes too long. */
async function download(
  kind: HandedFile['kind'],
  box: FileBoxInterface,
  maxBytes: number,
): Promise<HandedFile> {
  const stream = await box.toStream();
  const timer = setTimeout(() => stream.destroy(new Error('a file took too long')), DOWNLOAD_MS);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxBytes) throw new Error(`a file is larger than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
  } finally {
    clearTimeout(timer);
    stream.destroy();
  }
  const { name, mediaType } = box;
  return {
    kind,
    name: name.slice(-256),
    ...(mediaType && mediaType !== 'application/octet-stream' ? { media_type: mediaType } : {}),
    bytes: Buffer.concat(chunks),
  };
}

/** What is only nice to know must not cost the message. */
async function orElse<T>(
  ask: () => T | Promise<T>,
  otherwise: T,
  report: (error: unknown) => void,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    report(error);
    return otherwise;
  }
}
