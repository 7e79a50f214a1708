// A program that is called back: records what it gets, answers as told (default 204).
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';

export interface ReceivedCallback {
  headers: IncomingHttpHeaders;
  raw: string;
  body: Record<string, unknown>;
}

export interface CallbackReceiver {
  url: string;
  received: ReceivedCallback[];
  /** The following answers; status 0: the connection is cut without one, -1: there never is one. */
  answer(status: number, headers?: Record<string, string>): void;
  close(): Promise<void>;
}

export async function startCallbackReceiver(): Promise<CallbackReceiver> {
  const received: ReceivedCallback[] = [];
  let status = 204;
  let headers: Record<string, string> = {};
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const raw = Buffer.concat(chunks).toString('utf8');
      received.push({ headers: request.headers, raw, body: JSON.parse(raw) as Record<string, unknown> });
      if (status === 0) response.destroy();
      else if (status > 0) response.writeHead(status, headers).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('not a TCP port');
  return {
    url: `http://127.0.0.1:${address.port}/callback`,
    received,
    answer(next, nextHeaders = {}) {
      status = next;
      headers = nextHeaders;
    },
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
