// A TCP proxy between the browser and the server, whose connections a test cuts: the network, on a bad day.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface Proxy {
  url: string;
  /** Destroys all open connections. */
  cut(): void;
  /** While set, new connections are destroyed at once. */
  down: boolean;
  /** Where to; changed when the server comes back elsewhere. */
  target: string;
  close(): Promise<void>;
}

export async function startProxy(target: string): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    // A destroyed peer is what this is about; `close` follows.
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    if (proxy.down) {
      client.destroy();
      return;
    }
    const { hostname, port } = new URL(proxy.target);
    const upstream = connect(Number(port), hostname);
    keep(upstream);
    client.pipe(upstream).pipe(client);
    client.once('close', () => upstream.destroy());
    upstream.once('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('not a TCP port');
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const proxy: Proxy = {
    url: `http://127.0.0.1:${address.port}`,
    cut,
    down: false,
    target,
    async close() {
      server.close();
      cut();
      await once(server, 'close');
    },
  };
  return proxy;
}
