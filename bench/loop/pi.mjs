// The peer's side of the loop benchmark: `node pi.mjs <turns> <milliseconds>` prints turns a second of pi-agent-core's
// own loop with a model that answers at once and one trivial tool. Plain JavaScript, since its packages are installed by
// the benchmark and not there when the project is type-checked. The other side, the same in all else, is ours.ts.
import { runAgentLoop } from '@mariozechner/pi-agent-core';
import { createAssistantMessageEventStream } from '@mariozechner/pi-ai';
import { Type } from 'typebox';

const [turns, forMs] = process.argv.slice(2).map(Number);

const usage = {
  input: 10,
  output: 5,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 15,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};
const model = {
  id: 'instant',
  name: 'instant',
  api: 'openai-completions',
  provider: 'bench',
  baseUrl: 'http://127.0.0.1',
  reasoning: false,
  input: ['text'],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  contextWindow: 1_000_000,
  maxTokens: 8192,
};
const echo = {
  name: 'echo',
  label: 'echo',
  description: 'Returns the number.',
  parameters: Type.Object({ n: Type.Number() }),
  execute: async (_id, { n }) => ({ content: [{ type: 'text', text: String(n) }], details: undefined }),
};

async function run() {
  let turn = 0;
  const instant = () => {
    turn++;
    const last = turn === turns;
    const content = last
      ? [{ type: 'text', text: 'done' }]
      : [{ type: 'toolCall', id: `call-${turn}`, name: 'echo', arguments: { n: turn } }];
    const reason = last ? 'stop' : 'toolUse';
    const message = {
      role: 'assistant',
      content,
      api: model.api,
      provider: model.provider,
      model: model.id,
      usage,
      stopReason: reason,
      timestamp: 0,
    };
    const stream = createAssistantMessageEventStream();
    stream.push({ type: 'done', reason, message });
    return stream;
  };
  const messages = await runAgentLoop(
    [{ role: 'user', content: [{ type: 'text', text: 'go' }], timestamp: 0 }],
    { systemPrompt: 'You are a benchmark.', messages: [], tools: [echo] },
    { model, convertToLlm: (all) => all.filter(({ role }) => role !== 'custom') },
    () => undefined,
    undefined,
    instant,
  );
  // A prompt, an assistant message a turn, a result for each but the last.
  if (messages.length !== turns * 2) throw new Error(`${messages.length} messages after ${turns} turns`);
}

/** CPU milliseconds of this thread: others that use the machine meanwhile don't count. */
function cpuMs() {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Runs for that long, at least once; turns a second. */
async function measure(ms) {
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
