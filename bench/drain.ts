// Backlogs on the real server, both backends: 10,000 messages in one conversation, each answered by itself and in batches, and
// 10,000 conversations with one message each; and how long a direct chat waits beside a backlog. Memory is looked at all the
// while: it must not grow with what waits or with what was done.
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { createLoad } from './lib/load.ts';
import { rssMb as rssOf } from './lib/process.ts';
import { startRedis } from './lib/redis.ts';
import type { Report } from './lib/report.ts';
import { type BenchServer, startModel, startServer } from './lib/server.ts';
import { figure, percentile } from './lib/stats.ts';

const PLAIN = 'Hello, how are you today?';
/** Posts in flight. */
const AT_ONCE = 20;
const BACKENDS = ['embedded', 'redis'] as const;

interface Drain {
  backend: (typeof BACKENDS)[number];
  what: string;
  messages: number;
  seconds: number;
  /** Resident memory at the start, when a tenth was answered, at the end, and the most of it. */
  rssMb: { start: number; tenth: number; end: number; most: number };
}

interface Fairness {
  backend: (typeof BACKENDS)[number];
  /** Of a direct chat, alone and beside the backlog. */
  idleMs: { p50: number; most: number };
  besideMs: { p50: number; most: number };
  waiting: number;
}

const conversationShape = z.object({
  pending: z.number(),
  cursor: z.string().optional(),
  messages: z.array(z.object({ id: z.string().optional() })),
});

function clientOf(server: BenchServer, adminToken: string) {
  async function post(conversation: string, id: string, group: boolean): Promise<void> {
    const response = await fetch(`${server.url}/webhook/${server.account}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${server.key}`,
        'content-type': 'application/json',
        'idempotency-key': id,
      },
      body: JSON.stringify({ conversation, text: PLAIN, group, mentioned: true }),
    });
    if (response.status !== 202) throw new Error(`status ${response.status}: ${await response.text()}`);
    await response.arrayBuffer();
  }
  async function look(name: string, cursor = '') {
    const id = encodeURIComponent(`${server.account}:${name}`);
    const response = await fetch(`${server.url}/api/conversations/${id}?limit=200${cursor}`, {
      headers: { authorization: `Bearer ${adminToken}` },
    });
    return conversationShape.parse(await response.json());
  }
  /** Ids of the messages in the history, in its order. */
  async function said(name: string): Promise<string[]> {
    const pages: string[][] = [];
    let cursor: string | undefined = '';
    while (cursor !== undefined) {
      const page: z.infer<typeof conversationShape> = await look(name, cursor);
      pages.unshift(page.messages.flatMap(({ id }) => id ?? []));
      cursor = page.cursor === undefined ? undefined : `&cursor=${encodeURIComponent(page.cursor)}`;
    }
    return pages.flat();
  }
  /** Runs that were answered so far. */
  async function answered(): Promise<number> {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    const counts = [...text.matchAll(/^lanekeeper_answers_total\{.*\} (\d+)$/gm)];
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  }
  return { post, look, said, answered };
}
type Client = ReturnType<typeof clientOf>;

async function inParallel(count: number, work: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  const slot = async (): Promise<void> => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, slot));
}

/** Posts, waits until all is answered, checks that each message is there once and in order. */
async function drain(
  server: BenchServer,
  client: Client,
  {
    what,
    messages,
    nameOf,
    group,
  }: { what: string; messages: number; nameOf: (n: number) => string; group: boolean },
): Promise<Omit<Drain, 'backend'>> {
  const tag = what.replaceAll(/\W+/g, '-');
  const one = nameOf(0) === nameOf(1);
  const before = await client.answered();
  const left = async (): Promise<number> =>
    one ? (await client.look(nameOf(0))).pending : messages - ((await client.answered()) - before);
  const start = await rssOf(server.pid);
  const rssMb = { start, tenth: 0, end: 0, most: start };
  const started = performance.now();
  let posted = false;
  const posting = inParallel(messages, (n) => client.post(nameOf(n), `${tag}-${n}`, group)).then(
    () => void (posted = true),
  );
  // What is posted is awaited below; a failure must not be unhandled until then.
  posting.catch(() => undefined);
  for (;;) {
    const rss = await rssOf(server.pid);
    rssMb.most = Math.max(rssMb.most, rss);
    if (posted) {
      const waiting = await left();
      if (rssMb.tenth === 0 && waiting <= messages * 0.9) rssMb.tenth = rss;
      if (waiting <= 0) break;
    } else await Promise.race([posting, sleep(200)]);
    await sleep(200);
  }
  await posting;
  rssMb.end = await rssOf(server.pid);
  const seconds = (performance.now() - started) / 1000;
  const names = one
    ? [nameOf(0)]
    : Array.from({ length: 100 }, (_, n) => nameOf(Math.floor((n * messages) / 100)));
  for (const name of names) {
    const ids = await client.said(name);
    const wanted = one ? messages : 1;
    if (ids.length !== wanted || new Set(ids).size !== wanted)
      throw new Error(`${what}: ${ids.length} messages in the history of ${name}, not ${wanted}`);
  }
  return { what, messages, seconds, rssMb };
}

async function fairness(
  server: BenchServer,
  client: Client,
  waiting: number,
): Promise<Omit<Fairness, 'backend'>> {
  const load = createLoad(server);
  const chats = async (prefix: string): Promise<{ p50: number; most: number }> => {
    const times: number[] = [];
    for (let n = 0; n < 30; n += 1) times.push(await load.message(`${prefix}-${n}`, PLAIN));
    return { p50: percentile(times, 50), most: Math.max(...times) };
  };
  try {
    const idleMs = await chats('idle');
    await inParallel(waiting, (n) => client.post('busy-group', `busy-${n}`, true));
    const atStart = (await client.look('busy-group')).pending;
    const besideMs = await chats('beside');
    if ((await client.look('busy-group')).pending === 0)
      throw new Error('the backlog was gone before the direct chats were answered: take a larger one');
    return { idleMs, besideMs, waiting: atStart };
  } finally {
    load.close();
  }
}

export async function benchDrain(options: { quick: boolean }): Promise<Report> {
  const messages = options.quick ? 200 : 10_000;
  const drains: Drain[] = [];
  const fair: Fairness[] = [];
  const adminToken = 'benchmark-admin-token';
  for (const backend of BACKENDS) {
    const redis = backend === 'redis' ? await startRedis('always') : undefined;
    const model = await startModel();
    const common = { redisUrl: redis?.url ?? '', modelUrl: model.url, adminToken };
    const overload = { conversation_messages: 0, conversations: 0 };
    try {
      const server = await startServer({ ...common, overlay: { server: { overload } } });
      try {
        const client = clientOf(server, adminToken);
        await inParallel(options.quick ? 20 : 500, (n) => client.post(`warm-${n}`, `warm-${n}`, false));
        await sleep(1_000);
        const plans = [
          { what: 'one conversation, in batches', nameOf: () => 'direct', group: false },
          { what: 'one message a conversation', nameOf: (n: number) => `each-${n}`, group: false },
          { what: 'one conversation, an answer each', nameOf: () => 'group', group: true },
        ];
        for (const plan of plans) {
          const done = await drain(server, client, { ...plan, messages });
          drains.push({ backend, ...done });
          // It takes minutes: what is known already is said.
          const { start, most } = done.rssMb;
          process.stderr.write(
            `${backend}, ${plan.what}: ${figure(done.seconds)} s, RSS ${figure(start)} MB, at most ${figure(most)} MB\n`,
          );
        }
      } finally {
        await server.stop();
      }
      const small = await startServer({
        ...common,
        overlay: { server: { overload, drain_seconds: 0 }, workers: { concurrency: 2 } },
      });
      try {
        const waiting = options.quick ? 150 : 2_000;
        fair.push({ backend, ...(await fairness(small, clientOf(small, adminToken), waiting)) });
      } finally {
        await small.stop();
      }
    } finally {
      await model.stop();
      await redis?.stop();
    }
  }
  return {
    name: 'drain',
    title: `Backlogs of ${figure(messages)} messages`,
    table: {
      columns: ['', 'messages/s', 'RSS at start', 'when 1/10 was answered', 'at the end', 'most', 'unit'],
      rows: drains.map(({ backend, what, seconds, rssMb }) => [
        `${backend}: ${what}`,
        figure(messages / seconds),
        ...[rssMb.start, rssMb.tenth, rssMb.end, rssMb.most].map((mb) => figure(mb)),
        'MB',
      ]),
    },
    notes: [
      'Posting and answering overlap; every message is in its history once, or the benchmark fails.',
      ...fair.map(
        ({ backend, idleMs, besideMs, waiting }) =>
          `${backend}: a direct chat takes ${figure(idleMs.p50)} ms alone (most ${figure(idleMs.most)}), ${figure(besideMs.p50)} ms (most ${figure(besideMs.most)}) beside ${figure(waiting)} messages that wait in one group; two run at once.`,
      ),
    ],
    data: { messages, drains, fairness: fair },
  };
}
