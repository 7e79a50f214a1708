// Reading bodies: bounded, as bytes (a signature covers the bytes), then as JSON.
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AppError } from '../domain/errors.ts';

/** What is read and thrown away of a body that is too large: a client only sees our answer once its body is taken. */
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Rejects with payload_too_large, or with the connection's error. */
async function readBody(payload: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of payload as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= limitBytes) chunks.push(chunk);
    else if (size > limitBytes + MAX_DISCARDED_BYTES) break;
  }
  if (size > limitBytes)
    throw new AppError('payload_too_large', `The body is larger than ${limitBytes} bytes.`);
  return Buffer.concat(chunks, size);
}

/** Throws malformed_json. */
export function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(utf8.decode(bytes));
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'not JSON';
    // V8 quotes the text around the place: enough of it to find the place, not enough to fill a screen.
    throw new AppError('malformed_json', detail.slice(0, 200), { cause: error });
  }
}

/** Bodies of this scope are JSON; an empty one is undefined. Others are refused with 415. */
export function acceptJson(scope: FastifyInstance, limitBytes: number): void {
  acceptBytes(
    scope,
    () => limitBytes,
    (bytes) => (bytes.length === 0 ? undefined : parseJson(bytes)),
  );
}

/** Bodies of this scope are files: bytes of any type. */
export function acceptFiles(scope: FastifyInstance, limitBytes: number): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) =>
    readBody(payload, limitBytes),
  );
}

/** Bodies of this scope are JSON that is handed on as bytes, for somebody who checks them before they are parsed. */
export function acceptBytes(
  scope: FastifyInstance,
  limitBytes: (request: FastifyRequest) => number,
  map: (bytes: Buffer) => unknown = (bytes) => bytes,
): void {
  scope.removeAllContentTypeParsers();
  for (const type of ['application/json', /^application\/[\w.+-]+\+json(;|$)/])
    scope.addContentTypeParser(type, async (request: FastifyRequest, payload: IncomingMessage) =>
      map(await readBody(payload, limitBytes(request))),
    );
}
