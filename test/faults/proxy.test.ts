// The campaign's proxy delays bytes and cuts connections; it never reorders them: that would be a fault that no network has.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startProxy } from './campaign/proxy.ts';

test('bytes come in order, whatever delay comes and goes', async () => {
  const total = 3_000;
  const source = createServer((socket) => {
    const send = async (): Promise<void> => {
      for (let n = 0; n < total; n++) {
        socket.write(`${n}\n`);
        if (n % 5 === 0) await sleep(0);
      }
    };
    send().catch(() => undefined);
  });
  source.listen(0, '127.0.0.1');
  await once(source, 'listening');
  const address = source.address();
  if (address === null || typeof address === 'string') throw new TypeError('not a TCP port');
  const proxy = await startProxy(address.port);
  let delay = 0;
  const toggling = setInterval(() => proxy.delay((delay = (delay + 7) % 29)), 5);
  try {
    const client = connect(Number(new URL(proxy.url).port), '127.0.0.1');
    let text = '';
    client.setEncoding('utf8');
    for await (const chunk of client as AsyncIterable<string>) {
      text += chunk;
      if (text.endsWith(`\n${total - 1}\n`)) break;
    }
    expect(text).toBe(Array.from({ length: total }, (_, n) => `${n}\n`).join(''));
  } finally {
    clearInterval(toggling);
    await proxy.close();
    source.close();
  }
});
