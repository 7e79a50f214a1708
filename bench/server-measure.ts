// One backend of the server benchmark, measured from outside: the server, its model and this load generator are three
// processes, redis-server a fourth.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { countCommands } from './lib/commands.ts';
import { createLoad, drive, type Load } from './lib/load.ts';
import { cpuMs, rssMb } from './lib/process.ts';
import { startRedis } from './lib/redis.ts';
import { type BenchServer, type ModelServer, startModel, startServer } from './lib/server.ts';
import { median, percentile } from './lib/stats.ts';

export type Backend = 'embedded' | 'redis';

/** Round sizes. */
export interface Plan {
  starts: number;
  warmUp: number;
  rounds: number;
  /** Messages a round, one after another. */
  sequential: number;
  /** Messages a round, 20 conversations at once. */
  atOnce: number;
  bareCalls: number;
}

export interface Sequential {
  /** Time added to a message: its wall time less the time its model calls took inside the model server. */
  p50Ms: number;
  p95Ms: number;
  /** CPU of the server's process a message. */
  cpuMs: number;
}

export interface ServerFigures {
  backend: Backend;
  readyMs: number;
  rssIdleMb: number;
  rssAfterMb: number;
  /** Messages handled before rssAfterMb was read. */
  messages: number;
  /** A message with one tool round (model → now → model), and one without. */
  withTool: Sequential;
  plain: Sequential;
  perSecond: number;
  cpuAtOnceMs: number;
  redisCpuAtOnceMs: number;
  bareCpuMs: number;
  firstRequestBytes: number;
  /** Redis commands a message with one tool round, by name. */
  commands?: { sent: Record<string, number>; inside: Record<string, number> };
}

const TOOL = 'Please use the tool: what time is it?';
const PLAIN = 'Hello, how are you today?';
const MODEL_CALLS = { [TOOL]: 2, [PLAIN]: 1 };

interface Bench {
  server: BenchServer;
  model: ModelServer;
  load: Load;
  plan: Plan;
}

async function sequential(bench: Bench, message: keyof typeof MODEL_CALLS): Promise<Sequential> {
  const rounds: Sequential[] = [];
  const calls = MODEL_CALLS[message] ?? 1;
  for (let round = 0; round < bench.plan.rounds; round++) {
    await bench.model.timings();
    const before = await cpuMs(bench.server.pid);
    const prefix = `seq-${calls}-${round}`;
    const times = await drive(bench.load, { count: bench.plan.sequential, atOnce: 1, text: message, prefix });
    const used = (await cpuMs(bench.server.pid)) - before;
    const model = await bench.model.timings();
    if (model.length !== times.length * calls)
      throw new Error(`${model.length} model calls for ${times.length} messages, not ${calls} each`);
    const added = times.map((ms, n) => ms - sum(model.slice(n * calls, (n + 1) * calls)));
    rounds.push({
      p50Ms: percentile(added, 50),
      p95Ms: percentile(added, 95),
      cpuMs: used / times.length,
    });
  }
  const of = (name: keyof Sequential): number => median(rounds.map((round) => round[name]));
  return { p50Ms: of('p50Ms'), p95Ms: of('p95Ms'), cpuMs: of('cpuMs') };
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

async function atOnce(
  bench: Bench,
  redisPid: number,
): Promise<{ perSecond: number; cpu: number; redisCpu: number }> {
  const rounds: { perSecond: number; cpu: number; redisCpu: number }[] = [];
  for (let round = 0; round < bench.plan.rounds; round++) {
    const count = bench.plan.atOnce;
    const cpu = await cpuMs(bench.server.pid);
    const redisCpu = redisPid === 0 ? 0 : await cpuMs(redisPid);
    const started = performance.now();
    await drive(bench.load, { count, atOnce: 20, text: TOOL, prefix: `many-${round}` });
    const seconds = (performance.now() - started) / 1000;
    rounds.push({
      perSecond: count / seconds,
      cpu: ((await cpuMs(bench.server.pid)) - cpu) / count,
      redisCpu: redisPid === 0 ? 0 : ((await cpuMs(redisPid)) - redisCpu) / count,
    });
  }
  await bench.model.timings();
  return {
    perSecond: median(rounds.map((round) => round.perSecond)),
    cpu: median(rounds.map((round) => round.cpu)),
    redisCpu: median(rounds.map((round) => round.redisCpu)),
  };
}

/** CPU of one streaming call with the same SDK and the same request, in a process of its own. */
async function bareCall(model: ModelServer, body: string, calls: number): Promise<number> {
  const script = join(import.meta.dirname, 'lib', 'bare.ts');
  const child = spawn(process.execPath, [script, `${model.url}/v1`, String(calls)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  // `stream` goes with the body as the server sent it; the SDK is told so again.
  child.stdin.end(body.replaceAll(TOOL, PLAIN));
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  if (code !== 0) throw new Error(`bare.ts ended with code ${String(code)}`);
  return z.object({ cpuMs: z.number() }).parse(JSON.parse(output)).cpuMs;
}

export async function measure(backend: Backend, plan: Plan): Promise<ServerFigures> {
  const redis = backend === 'redis' ? await startRedis('always') : undefined;
  const model = await startModel();
  const options = { redisUrl: redis?.url ?? '', modelUrl: model.url };
  const started: number[] = [];
  while (started.length < plan.starts) {
    const person = await startServer({ ...options, npm: true });
    started.push(person.readyMs);
    await person.stop();
  }
  const server = await startServer(options);
  try {
    await sleep(2000);
    const rssIdleMb = await rssMb(server.pid);
    const load = createLoad(server);
    try {
      const bench = { server, model, load, plan };
      await drive(load, { count: plan.warmUp, atOnce: 1, text: TOOL, prefix: 'warm' });
      const first = await model.first();
      const bareCpuMs = await bareCall(model, first, plan.bareCalls);
      const withTool = await sequential(bench, TOOL);
      const plain = await sequential(bench, PLAIN);
      const many = await atOnce(bench, redis?.pid ?? 0);
      const figures: ServerFigures = {
        backend,
        readyMs: median(started),
        rssIdleMb,
        rssAfterMb: await rssMb(server.pid),
        messages: plan.warmUp + plan.rounds * (2 * plan.sequential + plan.atOnce),
        withTool,
        plain,
        perSecond: many.perSecond,
        cpuAtOnceMs: many.cpu,
        redisCpuAtOnceMs: many.redisCpu,
        bareCpuMs,
        firstRequestBytes: Buffer.byteLength(first),
      };
      if (redis !== undefined) figures.commands = await commandsOf(redis.url, load);
      return figures;
    } finally {
      load.close();
    }
  } finally {
    await server.stop();
    await model.stop();
    await redis?.stop();
  }
}

async function commandsOf(url: string, load: Load): Promise<NonNullable<ServerFigures['commands']>> {
  const count = 100;
  const counted = await countCommands(url, async () => {
    await drive(load, { count, atOnce: 1, text: TOOL, prefix: 'counted' });
    // What follows an answer (the job's completion, the status) belongs to the last message too.
    await sleep(200);
  });
  const each = (counts: ReadonlyMap<string, number>): Record<string, number> =>
    Object.fromEntries([...counts].sort((a, b) => b[1] - a[1]).map(([name, calls]) => [name, calls / count]));
  return { sent: each(counted.sent), inside: each(counted.inside) };
}
