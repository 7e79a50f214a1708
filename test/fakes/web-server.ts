// An HTTP server of a test's own, on a free port of this machine.
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';

export interface WebServer {
  /** Without a slash at its end. */
  url: string;
  port: number;
  /** Breaks off what is under way. */
  close(): Promise<void>;
}

export async function startWebServer(listener: RequestListener): Promise<WebServer> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
