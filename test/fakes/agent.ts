// A run of the agent in a test: a scripted model that refuses what vendors would refuse, a clock that moves when told, and
// everything that came out of the run.
import { configSchema } from '../../config/schema.ts';
import type { AgentSettings } from '../../config/schema.ts';
import { runAgent, type AgentOptions, type AgentPrompt, type AgentResult } from '../../src/agent/index.ts';
import type { RunEvent } from '../../src/domain/events.ts';
import type { Block, Message, ToolResultBlock, Usage } from '../../src/domain/messages.ts';
import { textOf } from '../../src/domain/messages.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { ModelClient, ModelError, ModelEvent, ModelRequest, ReplyBlock } from '../../src/ports/model.ts';
import type { JournalEntry } from '../../src/ports/store.ts';
import { success, type Tool } from '../../src/ports/tool.ts';
import { recordingLog, type LogLine } from './log.ts';

export type ScriptedCall = [name: string, args?: Record<string, unknown> | string, id?: string];

export type Step =
  | string
  | {
      text?: string;
      content?: ReplyBlock[];
      calls?: ScriptedCall[];
      stop?: 'stop' | 'length' | 'tool_use';
      usage?: Usage;
    }
  | { fail: Partial<ModelError>; partial?: string }
  | ((request: ModelRequest, signal: AbortSignal) => AsyncIterable<ModelEvent> | Step);

export interface ScriptedModel extends ModelClient {
  /** Copies of what was asked for, in order. */
  requests: ModelRequest[];
  /** What a vendor would have refused, over all requests. */
  violations: string[];
}

/** Plays its steps in order; after the last one it answers "done". */
export function scriptedModel(steps: readonly Step[], more: Partial<ModelClient> = {}): ScriptedModel {
  const requests: ModelRequest[] = [];
  const violations: string[] = [];
  let calls = 0;
  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    const step = steps[requests.length] ?? 'done';
    requests.push(structuredClone(request));
    violations.push(...violationsOf(request.messages));
    await Promise.resolve();
    if (signal.aborted) {
      yield { type: 'failed', stop: 'aborted', content: [], model: model.name };
      return;
    }
    yield* playStep(step, request, signal);
  }
  async function* playStep(
    step: Step,
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent> {
    if (typeof step === 'function') {
      const given = step(request, signal);
      if (typeof given === 'object' && Symbol.asyncIterator in given) yield* given;
      else yield* playStep(given, request, signal);
      return;
    }
    if (typeof step === 'string') {
      yield* playStep({ text: step }, request, signal);
      return;
    }
    if ('fail' in step) {
      const content: ReplyBlock[] = step.partial ? [{ type: 'text', text: step.partial }] : [];
      if (step.partial) yield { type: 'text', delta: step.partial };
      const error = { kind: 'invalid', message: 'refused', retryable: false, ...step.fail } as const;
      yield { type: 'failed', stop: 'error', error, content, model: model.name };
      return;
    }
    const { text = '', calls: wanted = [], usage = { input: 10, output: 5, cached: 0 } } = step;
    const half = Math.ceil(text.length / 2);
    for (const delta of [text.slice(0, half), text.slice(half)]) if (delta) yield { type: 'text', delta };
    const content: ReplyBlock[] = step.content ?? (text === '' ? [] : [{ type: 'text', text }]);
    for (const [name, args = {}, id = `call_${++calls}`] of wanted) {
      content.push({
        type: 'tool_call',
        id,
        name,
        arguments: typeof args === 'string' ? args : JSON.stringify(args),
      });
    }
    yield {
      type: 'done',
      content,
      stop: step.stop ?? (wanted.length > 0 ? 'tool_use' : 'stop'),
      usage,
      model: model.name,
    };
  }
  const model: ScriptedModel = {
    name: 'scripted',
    contextWindow: 128_000,
    maxOutputTokens: 4_000,
    images: true,
    ...more,
    requests,
    violations,
    stream,
  };
  return model;
}

/** What Anthropic and OpenAI refuse in a list of messages, in words; empty if both would take it. */
export function violationsOf(messages: readonly Message[]): string[] {
  const found: string[] = [];
  const ids = new Set<string>();
  if (messages[0]?.role !== 'user') found.push('the first message is not from the user');
  let open: string[] = [];
  for (const [n, { role, content }] of messages.entries()) {
    if (n > 0 && messages[n - 1]!.role === role) found.push(`messages ${n - 1} and ${n} have the same role`);
    if (content.length === 0) found.push(`message ${n} is empty`);
    if (content.some((block) => block.type === 'text' && block.text === ''))
      found.push(`message ${n} has empty text`);
    const results = content.filter((block): block is ToolResultBlock => block.type === 'tool_result');
    if (results.map(({ tool_use_id }) => tool_use_id).join() !== open.join()) {
      found.push(
        `message ${n} answers [${results.map((r) => r.tool_use_id).join()}] where [${open.join()}] was asked`,
      );
    }
    if (results.some((block, index) => content[index] !== block))
      found.push(`results of message ${n} do not come first`);
    open = content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : []));
    if (role === 'user' && open.length > 0) found.push(`message ${n} of the user has calls`);
    for (const id of open) {
      if (ids.has(id)) found.push(`the call id ${id} comes twice`);
      ids.add(id);
    }
  }
  if (open.length > 0) found.push(`calls without a result at the end: ${open.join()}`);
  return found;
}

export interface ManualClock extends Clock {
  /** Moves on, waking sleepers at their times. */
  advance(ms: number): Promise<void>;
  sleepers(): number;
}

function manualClock(startMs = 1_700_000_000_000): ManualClock {
  let now = startMs;
  const waiting = new Set<{ atMs: number; wake: () => void }>();
  return {
    now: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const sleeper = { atMs: now + ms, wake: resolve };
        waiting.add(sleeper);
        const abort = () => {
          waiting.delete(sleeper);
          reject(signal.reason);
        };
        if (signal.aborted) abort();
        else signal.addEventListener('abort', abort, { once: true });
      }),
    async advance(ms) {
      now += ms;
      for (const sleeper of waiting) {
        if (sleeper.atMs > now) continue;
        waiting.delete(sleeper);
        sleeper.wake();
      }
      await settled();
    },
    sleepers: () => waiting.size,
  };
}

/** Everything that can go on without time passing has gone on. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A promise to be resolved by hand. */
export const gate = <T = void>() => Promise.withResolvers<T>();

export type DeepPartial<T> = { [K in keyof T]?: T[K] extends object ? DeepPartial<T[K]> : T[K] };

export interface PlayOptions extends Partial<Omit<AgentOptions, 'settings' | 'prompts' | 'model'>> {
  script?: readonly Step[];
  model?: ModelClient;
  /** Texts, with ids p1, p2 …; or prompts. */
  prompts?: (string | AgentPrompt)[];
  settings?: DeepPartial<AgentSettings>;
  /** Called with each event as it comes. */
  onEvent?: (event: RunEvent, controls: Controls) => void;
}

export interface Controls {
  cancel(): void;
  interrupt(reason: string): void;
}

export interface Play extends Controls {
  result: Promise<AgentResult>;
  events: RunEvent[];
  /** Each write, in order. */
  writes: JournalEntry[][];
  logs: LogLine[];
  model: ScriptedModel;
  clock: ManualClock;
}

export const user = (text: string): Message => ({ role: 'user', content: [{ type: 'text', text }] });
export const assistant = (text: string): Message => ({
  role: 'assistant',
  content: [{ type: 'text', text }],
});
export const prompt = (text: string, id?: string): AgentPrompt =>
  id === undefined ? { message: user(text) } : { message: user(text), id };

export const settingsOf = (settings: DeepPartial<AgentSettings> = {}): AgentSettings =>
  configSchema.parse({ agent: settings }).agent;

/** Starts a run. */
export function start(options: PlayOptions = {}): Play {
  const { script = [], prompts = ['hi'], settings, onEvent, ...more } = options;
  const model = (more.model ?? scriptedModel(script)) as ScriptedModel;
  const controller = new AbortController();
  const events: RunEvent[] = [];
  const writes: JournalEntry[][] = [];
  const { log, lines: logs } = recordingLog();
  const clock = (more.clock as ManualClock | undefined) ?? manualClock();
  const controls: Controls = {
    cancel: () => controller.abort('cancel'),
    interrupt: (reason) => controller.abort(reason),
  };
  const result = runAgent({
    messages: [],
    system: 'You are a test.',
    tools: [],
    language: 'en',
    base: {
      conversation: 'test:chat',
      run: 'run1',
      account: 'test',
      sender: { id: 'ann' },
      group: false,
      cacheKey: 'test:chat',
    },
    signal: controller.signal,
    emit: (event) => {
      events.push(structuredClone(event));
      onEvent?.(event, controls);
    },
    journal: async (entries) => {
      writes.push(structuredClone(entries));
    },
    steering: async () => [],
    followUp: async () => [],
    clock,
    log,
    ...more,
    model,
    settings: settingsOf(settings),
    prompts: prompts.map((item, n) => (typeof item === 'string' ? prompt(item, `p${n + 1}`) : item)),
  });
  // A test that ends early must not leave an unhandled rejection.
  result.catch(() => undefined);
  return {
    result,
    events,
    writes,
    logs,
    model,
    clock,
    ...controls,
  };
}

export interface Played extends Omit<Play, 'result'> {
  result: AgentResult;
}

/** Runs to the end, and checks what holds for every run. */
export async function play(options: PlayOptions = {}): Promise<Played> {
  const run = start(options);
  const result = await run.result;
  const wrong = [
    ...(run.model.violations ?? []),
    ...violationsOf(merge([...(options.messages ?? []), ...messagesOf(result)])),
  ];
  if (wrong.length > 0) throw new Error(`not valid for vendors: ${wrong.join('; ')}`);
  return { ...run, result };
}

export const messagesOf = (result: AgentResult): Message[] => result.entries.map(({ message }) => message);

/** As clients do for vendors that want strict alternation. */
export function merge(messages: readonly Message[]): Message[] {
  const out: Message[] = [];
  for (const { role, content } of messages) {
    const last = out.at(-1);
    if (last?.role === role) out[out.length - 1] = { role, content: [...last.content, ...content] };
    else out.push({ role, content });
  }
  return out;
}

/** A tool that counts its calls; by default it answers with its arguments. */
export function tool(
  name: string,
  execute: Tool['execute'] = async (args) => success(JSON.stringify(args)),
  more: Partial<Tool> = {},
): Tool & { calls: Record<string, unknown>[] } {
  const calls: Record<string, unknown>[] = [];
  return {
    name,
    description: `The tool ${name}.`,
    parameters: { type: 'object' },
    idempotent: false,
    ...more,
    calls,
    execute: (args, context) => {
      calls.push(args);
      return execute(args, context);
    },
  };
}

/** A conversation in short: `user: …`, `assistant: …`, `call name {…}`, `result …`, `error …`. */
export function brief(messages: readonly Message[]): string[] {
  return messages.flatMap(({ role, content }) => content.map((block) => briefBlock(role, block)));
}

function briefBlock(role: string, block: Block): string {
  switch (block.type) {
    case 'text':
      return `${role}: ${block.text}`;
    case 'tool_use':
      return `call ${block.name} ${JSON.stringify(block.input)}`;
    case 'tool_result':
      return `${block.is_error ? 'error' : 'result'} ${textOf(block.content)}`;
    default:
      return `${role}: (${block.type})`;
  }
}

/** Types of events, the streamed deltas left out. */
export const kinds = (events: readonly RunEvent[]): string[] =>
  events.filter(({ type }) => type !== 'message_update').map(({ type }) => type);

export const steps = (writes: readonly JournalEntry[][]): string[] =>
  writes.flat().map((entry) => (entry.kind === 'steered' ? `steered ${entry.messages.join()}` : entry.kind));
