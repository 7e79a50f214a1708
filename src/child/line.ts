// The line between the server and a child process of its own: JSON, and bytes as bytes, over a pipe. Node's own (fork,
// process.send) believes what comes over it: one message of its own kind, or bytes that are none, end the process that reads.
import type { Duplex } from 'node:stream';

export interface Line {
  /** False: the line has ended. `then` is called when the message is on its way, or can't be. */
  send(message: unknown, then?: () => void): boolean;
}

export interface LineOptions {
  /** Of one message, in bytes. */
  maxBytes: number;
  /** Whatever the other side says; its shape is for the receiver to check. */
  onMessage(message: unknown): void;
  /** Once, with why: the other side is gone, or what it says is no message. */
  onEnd?(reason: string): void;
}

/** Length of the JSON, length of the bytes after it. */
const HEAD_BYTES = 8;
/** Stands in the JSON for bytes: where they begin, and how many they are. */
const BYTES = '$bytes';

export function createLine(stream: Duplex, { maxBytes, onMessage, onEnd }: LineOptions): Line {
  let chunks: Buffer[] = [];
  let held = 0;
  let needed = HEAD_BYTES;
  let ended = false;

  function end(reason: string): void {
    if (ended) return;
    ended = true;
    chunks = [];
    stream.destroy();
    onEnd?.(reason);
  }

  /** Undefined: not all of it is there. */
  function take(): Buffer | undefined {
    const whole = Buffer.concat(chunks, held);
    chunks = [whole];
    needed = HEAD_BYTES;
    if (held < HEAD_BYTES) return undefined;
    needed = HEAD_BYTES + whole.readUInt32BE(0) + whole.readUInt32BE(4);
    if (needed > HEAD_BYTES + maxBytes) {
      end('it said too much at once');
      return undefined;
    }
    if (held < needed) return undefined;
    const frame = whole.subarray(0, needed);
    chunks = [whole.subarray(needed)];
    held -= needed;
    needed = HEAD_BYTES;
    return frame;
  }

  stream.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    held += chunk.length;
    while (!ended && held >= needed) {
      const frame = take();
      if (!frame) continue;
      const message = decode(frame);
      if (message) onMessage(message.value);
      else end('it said something that is no message');
    }
  });
  stream.on('error', (error) => end(error.message));
  stream.on('close', () => end('it has closed the line'));
  stream.on('end', () => end('it has closed the line'));
  return {
    send(message, then) {
      if (ended) {
        then?.();
        return false;
      }
      const parts = encode(message);
      stream.cork();
      for (const [n, part] of parts.entries()) stream.write(part, n === parts.length - 1 ? then : undefined);
      stream.uncork();
      return true;
    },
  };
}

export function encode(message: unknown): Uint8Array[] {
  const parts: Uint8Array[] = [];
  let size = 0;
  const json = Buffer.from(
    JSON.stringify(message, function (this: Record<string, unknown>, key, value: unknown) {
      // Before Buffer's toJSON().
      const raw = this[key];
      if (!(raw instanceof Uint8Array)) return value;
      parts.push(raw);
      size += raw.length;
      return { [BYTES]: [size - raw.length, raw.length] };
    }),
  );
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(json.length, 0);
  head.writeUInt32BE(size, 4);
  return [head, json, ...parts.filter(({ length }) => length > 0)];
}

/** Of a whole frame. Undefined: no message. Never throws. */
export function decode(frame: Buffer): { value: unknown } | undefined {
  const bytes = frame.subarray(HEAD_BYTES + frame.readUInt32BE(0));
  try {
    const json = frame.toString('utf8', HEAD_BYTES, frame.length - bytes.length);
    const value: unknown = JSON.parse(json, (_key, one: unknown) => {
      if (typeof one !== 'object' || one === null || !(BYTES in one)) return one;
      const [at, length] = one[BYTES] as [number, number];
      return bytes.subarray(at, at + length);
    });
    return { value };
  } catch {
    return undefined;
  }
}
