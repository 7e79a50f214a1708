// The line between the server and its child processes: what is said arrives, in whatever pieces, and whatever else comes ends the
// line and nothing more.
import { execFile } from 'node:child_process';
import { duplexPair } from 'node:stream';
import { promisify } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLine, decode, encode } from '../../src/child/line.ts';

const MAX = 2_000;

/** What is heard of bytes that come in these pieces, and why it ended. */
async function hear(pieces: readonly Uint8Array[]): Promise<{ heard: unknown[]; reason: string }> {
  const [near, far] = duplexPair();
  const heard: unknown[] = [];
  const { promise, resolve } = Promise.withResolvers<string>();
  createLine(near, { maxBytes: MAX, onMessage: (message) => heard.push(message), onEnd: resolve });
  far.on('error', () => undefined);
  for (const piece of pieces) far.write(piece);
  far.end();
  return { heard, reason: await promise };
}

const cut = (whole: Buffer, places: readonly number[]): Buffer[] => {
  const at = [0, ...places.map((place) => place % (whole.length + 1)), whole.length].toSorted(
    (a, b) => a - b,
  );
  return at.slice(1).map((to, n) => whole.subarray(at[n], to));
};

const CLOSED = 'it has closed the line';
const good = { type: 'message', text: '你好 😀', file: { name: 'a', bytes: Buffer.from([0, 255, 10]) } };
const whole = Buffer.concat([...encode(good), ...encode('ready'), ...encode([null, 1.5])]);

describe('a line', () => {
  test('takes bytes as bytes, words as words, and tells when they are on their way', async () => {
    const [near, far] = duplexPair();
    const { promise, resolve } = Promise.withResolvers<unknown>();
    createLine(far, { maxBytes: MAX, onMessage: resolve });
    const line = createLine(near, { maxBytes: MAX, onMessage: () => undefined });
    const sent = new Promise<void>((then) => expect(line.send(good, then)).toBe(true));
    expect(await promise).toEqual(good);
    await sent;
    near.destroy();
    await new Promise<void>((closed) => near.once('close', closed));
    const { promise: told, resolve: tell } = Promise.withResolvers<void>();
    expect(line.send(good, tell)).toBe(false);
    await told;
  });

  test('hears the same in whatever pieces it comes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 6 }), async (places) => {
        const { heard, reason } = await hear(cut(whole, places));
        expect(heard).toEqual([good, 'ready', [null, 1.5]]);
        expect(reason).toBe(CLOSED);
      }),
      { numRuns: 100 },
    );
  });

  test('ends when it hears what is no message, and does nothing else', async () => {
    const put = fc.record({
      at: fc.nat(whole.length),
      cut: fc.nat(5),
      bytes: fc.uint8Array({ maxLength: 8 }),
    });
    const garbled = fc.array(put, { maxLength: 4 }).map((puts) => {
      let bytes = whole;
      for (const { at, cut: gone, bytes: more } of puts)
        bytes = Buffer.concat([bytes.subarray(0, at), more, bytes.subarray(at + gone)]);
      return bytes;
    });
    const reasons = new Set<string>();
    const check = async (bytes: Uint8Array) => void reasons.add((await hear([bytes])).reason);
    await fc.assert(fc.asyncProperty(fc.oneof(garbled, fc.uint8Array({ maxLength: 60 })), check), {
      numRuns: 500,
    });
    expect([...reasons].toSorted()).toEqual([
      CLOSED,
      'it said something that is no message',
      'it said too much at once',
    ]);
  });

  test('gives back any JSON value as it was, unless it looks like bytes', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(decode(Buffer.concat(encode(value)))).toEqual({ value: JSON.parse(JSON.stringify(value)) });
      }),
    );
  });
});

test('without a free descriptor no program starts, and the process goes on', async () => {
  const program = `
    const { openSync, closeSync } = await import('node:fs');
    const { convert } = await import('./src/tools/web/convert.ts');
    const { StdioTransport } = await import('./src/tools/mcp/stdio.ts');
    const transport = new StdioTransport({ command: process.execPath, args: [], env: {}, onStderr() {} });
    const open = [];
    try { for (;;) open.push(openSync('/dev/null')); } catch {}
    const never = new AbortController().signal;
    const tries = [() => convert({ kind: 'html', text: 'x', base: 'http://a.test' }, never), () => transport.start()];
    const ends = await Promise.allSettled(tries.map((one) => one()));
    for (const fd of open) closeSync(fd);
    await new Promise((resolve) => setImmediate(resolve));
    console.log(ends.map(({ status }) => status).join(' '));
  `;
  const { stdout } = await promisify(execFile)(
    'sh',
    ['-c', 'ulimit -n 64; exec "$0" --input-type=module -e "$1"', process.execPath, program],
    { cwd: `${import.meta.dirname}/../..` },
  );
  expect(stdout).toBe('rejected rejected\n');
});
