// The load generator: messages to the webhook with `Prefer: wait`, each answered before it returns. Plain node:http on
// kept connections: it shares two cores with what it measures.
import { Agent, request } from 'node:http';
import { z } from 'zod';

const answerShape = z.object({ status: z.string(), reply: z.object({ text: z.string() }) });

export interface Load {
  /** Sends a message and waits for its answer; milliseconds from the first byte sent to the last one received. */
  message(conversation: string, text: string): Promise<number>;
  close(): void;
}

export function createLoad(target: { url: string; account: string; key: string }): Load {
  const agent = new Agent({ keepAlive: true });
  const { hostname, port } = new URL(target.url);
  return {
    async message(conversation, text) {
      const body = JSON.stringify({ conversation, text });
      const headers = {
        authorization: `Bearer ${target.key}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        prefer: 'wait=60',
      };
      const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
      const started = performance.now();
      const path = `/webhook/${target.account}`;
      const outgoing = request({ agent, hostname, port, path, method: 'POST', headers }, (incoming) => {
        let answer = '';
        incoming.setEncoding('utf8');
        incoming.on('data', (part: string) => (answer += part));
        incoming.on('error', reject);
        incoming.on('end', () => resolve({ status: incoming.statusCode ?? 0, text: answer }));
      });
      outgoing.on('error', reject);
      outgoing.end(body);
      const answer = await promise;
      const tookMs = performance.now() - started;
      if (answer.status !== 200) throw new Error(`status ${answer.status}: ${answer.text.slice(0, 500)}`);
      const { status, reply } = answerShape.parse(JSON.parse(answer.text));
      if (status !== 'done' || !reply.text.includes('noon')) throw new Error(`not answered: ${answer.text}`);
      return tookMs;
    },
    close: () => agent.destroy(),
  };
}

/** Messages before a slot moves on to a fresh conversation, so that a message costs the same at the end of a run. */
const MESSAGES_PER_CONVERSATION = 10;

/** `count` messages, `atOnce` conversations at a time; their times in milliseconds. */
export async function drive(
  load: Load,
  options: { count: number; atOnce: number; text: string; prefix: string },
): Promise<number[]> {
  const times: number[] = [];
  let sent = 0;
  const slot = async (index: number): Promise<void> => {
    for (let n = 0; sent < options.count; n++) {
      sent++;
      const conversation = `${options.prefix}-${index}-${Math.floor(n / MESSAGES_PER_CONVERSATION)}`;
      times.push(await load.message(conversation, options.text));
    }
  };
  await Promise.all(Array.from({ length: options.atOnce }, (_, index) => slot(index)));
  return times;
}
