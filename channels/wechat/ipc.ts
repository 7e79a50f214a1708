// What the server and the child process say to each other. A puppet is somebody else's program: what comes from the child is
// checked here, and what has another shape is dropped.
import { z } from 'zod';

const id = z.string().min(1).max(256);
const words = z.string().max(100_000);
const reason = z.string().max(2_000);
const serial = z.number().int().nonnegative();

const fileSchema = z.object({
  kind: z.enum(['image', 'file', 'audio', 'video']),
  name: z.string().max(256),
  media_type: z.string().max(256).optional(),
  bytes: z.instanceof(Uint8Array),
});

const handedSchema = z.object({
  /** The platform's message id. */
  id,
  /** Milliseconds since the epoch. */
  at: z.number().int().nonnegative(),
  /** Our own id in the login that received it. */
  self: id,
  chat: z.object({ id, name: words }),
  group: z.boolean(),
  sender: z.object({ id, name: words, alias: words.optional() }),
  mentioned: z.boolean(),
  text: words,
  files: z.array(fileSchema).max(10),
  /** What is no text and was not fetched, in words. */
  notes: z.array(reason).max(10),
});

const fromChildSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('up') }),
  z.object({
    type: z.literal('scan'),
    state: z.enum(['waiting', 'scanned', 'confirmed', 'cancelled']),
    qr: z.string().max(4_096).optional(),
  }),
  z.object({ type: z.literal('login'), id, name: words }),
  z.object({ type: z.literal('logout'), reason }),
  z.object({ type: z.literal('heartbeat') }),
  /** Kept by the child until `taken` is told. */
  z.object({ type: z.literal('message'), serial, message: handedSchema }),
  z.object({ type: z.literal('recalled'), id }),
  /** What became of a `send`. */
  z.object({
    type: z.literal('outcome'),
    serial,
    outcome: z.enum(['sent', 'logged_out', 'gone', 'refused']),
    reason,
  }),
  /** Something went wrong in the puppet; it goes on. */
  z.object({ type: z.literal('trouble'), reason }),
  /** The child can't go on, and ends. */
  z.object({ type: z.literal('fatal'), cause: z.enum(['wechaty', 'puppet', 'broken']), reason }),
  z.object({ type: z.literal('pong') }),
]);

export type FromChild = z.infer<typeof fromChildSchema>;
export type Handed = z.infer<typeof handedSchema>;
export type HandedFile = z.infer<typeof fileSchema>;
export type Outcome = Omit<Extract<FromChild, { type: 'outcome' }>, 'type' | 'serial'>;

/** Undefined: not one of ours. Never throws. */
export function readFromChild(message: unknown): FromChild | undefined {
  const { success, data } = fromChildSchema.safeParse(message);
  return success ? data : undefined;
}

export interface Start {
  type: 'start';
  /** A package, or a module's path or URL. */
  puppet: string;
  options: Record<string, unknown>;
  /** File that keeps the login; absent: none. */
  memory?: string;
  maxFileBytes: number;
  /** Files of group messages that don't mention the bot, too. */
  groupFiles: boolean;
}

/** Whom to send to: the id of the login that the message came from, and how to find the chat in another one. */
export interface Target {
  chat: string;
  group: boolean;
  name: string;
  alias?: string;
  self: string;
}

export interface Send {
  type: 'send';
  serial: number;
  to: Target;
  content:
    | { text: string; mention?: { id: string; name: string } }
    | { file: { name: string; bytes: Uint8Array } };
}

/** From the server, which the child trusts. */
export type ToChild =
  | Start
  | Send
  /** The message is durable, or not for us: the next one of its chat may come. */
  | { type: 'taken'; serial: number }
  | { type: 'ping' }
  | { type: 'stop' };
