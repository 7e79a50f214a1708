// A TCP proxy between a process and Redis: cuts its connections, and delays the replies.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface Proxy {
  url: string;
  /** Breaks every connection, now. */
  cut(): void;
  /** Replies come so much later from now on; 0: at once. */
  delay(byMs: number): void;
  close(): Promise<void>;
}

export async function startProxy(targetPort: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const timers = new Set<NodeJS.Timeout>();
  let delayMs = 0;

  const server = createServer((client) => {
    const upstream = connect(targetPort, '127.0.0.1');
    /** When the last delayed chunk goes out, and how many wait: those after them do not overtake. */
    let releaseAt = 0;
    let waiting = 0;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      // Either side's end is the other's.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => {
      const now = performance.now();
      if (delayMs === 0 && waiting === 0) {
        client.write(chunk);
        return;
      }
      releaseAt = Math.max(releaseAt, now + delayMs);
      waiting++;
      const timer = setTimeout(() => {
        timers.delete(timer);
        waiting--;
        client.write(chunk);
      }, releaseAt - now);
      timers.add(timer);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('not a TCP port');

  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `redis://127.0.0.1:${address.port}`,
    cut,
    delay: (byMs) => void (delayMs = byMs),
    async close() {
      for (const timer of timers) clearTimeout(timer);
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
