// The end of a client, in whatever state it is.
import type { Client } from './clients.ts';

/** Ends a client in whatever state it is. Replies that are on their way are waited for, briefly. */
export async function endClient(client: Client, graceMs = 1_000): Promise<void> {
  if (client.status === 'end') return;
  const ended = new Promise<void>((resolve) => client.once('end', resolve));
  if (client.status === 'ready') {
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => (timer = setTimeout(resolve, graceMs)));
    await Promise.race([client.quit().catch(() => undefined), grace]);
    clearTimeout(timer);
  }
  await cutClient(client);
  // A cluster's client that is between two attempts has nothing whose closing would end it, and says nothing.
  if (!client.isCluster) await ended;
}

/** Ends a client at once; what is in flight on it rejects. */
export async function cutClient(client: Client): Promise<void> {
  const { status } = client;
  if (status === 'end') return;
  client.disconnect();
  if (status === 'reconnecting' && !client.isCluster) {
    // Between two attempts there is no socket whose closing would end the client: giving up one more attempt does.
    const attempt = client.connect().catch(() => undefined);
    client.disconnect();
    await attempt;
  }
}
