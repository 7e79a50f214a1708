// The programs that are called back: one server, a path per conversation. Records everything, misbehaves as told.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { CallbackFault } from './plan.ts';

export interface Callback {
  at: number;
  /** The last part of the path. */
  conversation: string;
  deliveryId: string;
  messages: string[];
  status: string;
  reply: string;
  run: string;
  /** It was answered with 2xx; a receiver that times out after accepting has read it all the same. */
  answer: 'ok' | CallbackFault;
}

export interface Receiver {
  urlOf(conversation: string): string;
  received: Callback[];
  /** Asked for each callback: how to misbehave. */
  behave(next: (callback: Omit<Callback, 'answer'>) => CallbackFault | undefined): void;
  onReceived(listener: (callback: Callback) => void): void;
  close(): Promise<void>;
}

export async function startReceiver(): Promise<Receiver> {
  const received: Callback[] = [];
  let behaviour: Parameters<Receiver['behave']>[0] = () => undefined;
  let listener: (callback: Callback) => void = () => undefined;
  const timers = new Set<NodeJS.Timeout>();

  const server = createServer((request, response) => {
    let raw = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => (raw += chunk));
    request.on('error', () => undefined);
    request.on('end', () => {
      const body = JSON.parse(raw) as {
        messages: string[];
        status: string;
        run: string;
        reply: { text: string };
      };
      const callback = {
        at: Date.now(),
        conversation: decodeURIComponent((request.url ?? '').split('/').at(-1) ?? ''),
        deliveryId: String(request.headers['webhook-id']),
        messages: body.messages,
        status: body.status,
        reply: body.reply.text,
        run: body.run,
      };
      const answer: Callback['answer'] = behaviour(callback) ?? 'ok';
      const entry = { ...callback, answer };
      received.push(entry);
      switch (answer) {
        case 'ok':
          response.writeHead(204).end();
          break;
        case 'error':
          response.writeHead(500).end();
          break;
        case 'cut':
          response.destroy();
          break;
        case 'slow': {
          const timer = setTimeout(() => {
            timers.delete(timer);
            response.writeHead(204).end();
          }, 250);
          timers.add(timer);
          break;
        }
        case 'silence':
      }
      listener(entry);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('not a TCP port');

  return {
    urlOf: (conversation) => `http://127.0.0.1:${address.port}/cb/${encodeURIComponent(conversation)}`,
    received,
    behave: (next) => void (behaviour = next),
    onReceived: (next) => void (listener = next),
    async close() {
      for (const timer of timers) clearTimeout(timer);
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
