// Our side of the loop benchmark: `node ours.ts <turns> <milliseconds>` prints turns a second of src/agent with a model
// that answers at once and one trivial tool. The other side, the same in all else, is pi.mjs.
import { configSchema } from '../../config/schema.ts';
import { runAgent } from '../../src/agent/index.ts';
import { systemClock } from '../../src/system-clock.ts';
import type { Logger } from '../../src/ports/log.ts';
import type { ModelClient, ModelEvent, ReplyBlock } from '../../src/ports/model.ts';
import { success, type Tool } from '../../src/ports/tool.ts';

const [turns = 0, forMs = 0] = process.argv.slice(2).map(Number);

const silent = (): void => undefined;
const log: Logger = { debug: silent, info: silent, warn: silent, error: silent, child: () => log };
const settings = configSchema.parse({ agent: { max_steps: turns } }).agent;
const usage = { input: 10, output: 5, cached: 0 };

/** One for all runs: the other side has none. */
const { signal } = new AbortController();

const echo: Tool = {
  name: 'echo',
  description: 'Returns the number.',
  parameters: {
    type: 'object',
    properties: { n: { type: 'number' } },
    required: ['n'],
    additionalProperties: false,
  },
  idempotent: true,
  execute: ({ n }) => Promise.resolve(success(String(n))),
};

async function run(): Promise<void> {
  let turn = 0;
  const model: ModelClient = {
    name: 'instant',
    contextWindow: 1_000_000,
    maxOutputTokens: 8192,
    images: false,
    async *stream(): AsyncGenerator<ModelEvent> {
      turn++;
      const last = turn === turns;
      const content: ReplyBlock[] = last
        ? [{ type: 'text', text: 'done' }]
        : [{ type: 'tool_call', id: `call-${turn}`, name: 'echo', arguments: `{"n":${turn}}` }];
      yield { type: 'done', content, stop: last ? 'stop' : 'tool_use', usage, model: 'instant' };
    },
  };
  const result = await runAgent({
    messages: [],
    prompts: [{ message: { role: 'user', content: [{ type: 'text', text: 'go' }] } }],
    system: 'You are a benchmark.',
    tools: [echo],
    model,
    settings,
    language: 'en',
    base: {
      conversation: 'bench:loop',
      run: 'run',
      account: 'bench',
      sender: { id: 'somebody' },
      group: false,
      cacheKey: 'bench:loop',
    },
    signal,
    emit: silent,
    journal: () => Promise.resolve(),
    steering: () => Promise.resolve([]),
    followUp: () => Promise.resolve([]),
    clock: systemClock,
    log,
  });
  // A prompt, an assistant message a turn, a result for each but the last.
  if (result.entries.length !== turns * 2)
    throw new Error(`${result.entries.length} entries after ${turns} turns`);
}

/** CPU milliseconds of this thread: others that use the machine meanwhile don't count. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Runs for that long, at least once; turns a second. */
async function measure(ms: number): Promise<number> {
  const started = cpuMs();
  let done = 0;
  do {
    await run();
    done += turns;
  } while (cpuMs() < started + ms);
  return (done * 1000) / (cpuMs() - started);
}

await measure(forMs / 2); // Warm up.
process.stdout.write(`${JSON.stringify({ turnsPerSecond: await measure(forMs) })}\n`);
