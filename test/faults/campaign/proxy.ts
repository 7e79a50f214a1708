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
    /** Replies that are held back, first come first out: one timer, since several may end in another order. */
    const held: { chunk: Buffer; releaseAt: number }[] = [];
    const release = (): void => {
      while (held[0] && held[0].releaseAt <= performance.now()) client.write(held.shift()!.chunk);
      if (held[0]) wait(Math.max(0, held[0].releaseAt - performance.now()));
    };
    const wait = (ms: number): void => {
      const timer = setTimeout(() => {
        timers.delete(timer);
        release();
      }, ms);
      timers.add(timer);
    };
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
      if (delayMs === 0 && held.length === 0) {
        client.write(chunk);
        return;
      }
      held.push({ chunk, releaseAt: performance.now() + delayMs });
      if (held.length === 1) wait(delayMs);
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
