// The state of one run, and the few things that every part of the loop does with it: emit, journal, ask a hook.
import type { RunEvent, RunEventBody } from '../domain/events.ts';
import type { Sender } from '../domain/inbound.ts';
import type { Message, Usage } from '../domain/messages.ts';
import type { ModelClient, ModelRequest, ToolSpec } from '../ports/model.ts';
import type { JournalEntry } from '../ports/store.ts';
import type { Tool } from '../ports/tool.ts';
import { Cancelled, RunInterrupted, createAbort, type Abort, type Stop } from './abort.ts';
import { createBreakers, type Breakers } from './breakers.ts';
import { createCalibration, type Calibration } from './context/calibration.ts';
import { createDeadlines, type Deadlines } from './deadlines.ts';
import { createTranscript, type Transcript } from './transcript.ts';
import type { AgentPrompt } from './prompt.ts';
import type { AgentOptions, ContextMessage } from './types.ts';

export interface Run {
  readonly options: AgentOptions;
  readonly abort: Abort;
  readonly deadlines: Deadlines;
  readonly breakers: Breakers;
  readonly calibration: Calibration;
  readonly transcript: Transcript;
  /** Tools that the model may call, by name. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** Sorted by name, frozen for the run. */
  readonly specs: ToolSpec[];
  readonly usage: Usage;
  /** Turns so far; the number of the current one. */
  turn: number;
  model: ModelClient;
  thinking: ModelRequest['thinking'];
  /** Of the newest message. */
  sender: Sender;
  /** Texts that answer the user, in order: the reply. */
  finals: string[];
  /** Text of the assistant's newest message that is not an answer (it came with calls). */
  aside: string;
  /** Taken from the inbox, not yet shown to the model (one at a time). */
  heldSteering: AgentPrompt[];
  heldFollowUp: AgentPrompt[];
  /** Journal entries that go with the next write. */
  unwritten: JournalEntry[];
  readonly context: Context;
  /** Between turn_start and turn_end. */
  turnOpen: boolean;
  /** The model said "too long", and nothing helped. */
  overflowed: boolean;
  /** Where the deltas of a reply go. */
  readonly sink: DeltaSink;
}

export interface DeltaSink {
  text(delta: string): void;
  thinking(delta: string): void;
  reset(): void;
}

export interface Context {
  /** As given. */
  readonly history: readonly ContextMessage[];
  /** The model sees history from here on, after the summary of what came before. */
  from: number;
  summary: string | undefined;
  /** Set if the next run is to begin there, too. */
  kept?: { from: number; summary: string | undefined };
}

export function createRun(options: AgentOptions): Run {
  const { settings, log, clock } = options;
  const offered = offeredTools(options);
  const run: Run = {
    options,
    abort: createAbort(options.signal, (error) => {
      log.debug({ error }, 'work that a stopped run left behind failed');
    }),
    deadlines: createDeadlines(clock, (error) => {
      log.error({ error }, 'the wait for tool timeouts failed: tools of this run no longer time out');
    }),
    breakers: createBreakers(settings.breakers),
    calibration: options.calibration ?? createCalibration(),
    transcript: createTranscript(),
    tools: new Map(offered.map((tool) => [tool.name, tool])),
    specs: offered.map(({ name, description, parameters }) => ({ name, description, parameters })),
    usage: { input: 0, output: 0, cached: 0 },
    turn: 0,
    model: options.model,
    thinking: options.thinking,
    sender: options.base.sender,
    finals: [],
    aside: '',
    heldSteering: [],
    heldFollowUp: [],
    unwritten: [],
    context: { history: options.messages, from: 0, summary: options.summary },
    turnOpen: false,
    overflowed: false,
    sink: {
      text: (delta) => emit(run, { type: 'message_update', delta }),
      thinking: (delta) => emit(run, { type: 'reasoning_update', delta }),
      reset: () => emit(run, { type: 'message_reset' }),
    },
  };
  return run;
}

function offeredTools({ tools, log }: AgentOptions): Tool[] {
  const byName = new Map<string, Tool>();
  for (const tool of tools) {
    if (tool.stage === 'post_process') continue;
    if (byName.has(tool.name))
      log.warn({ tool: tool.name }, 'two tools have the same name: the first is used');
    else byName.set(tool.name, tool);
  }
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** `body` is made for this call: it is completed in place. */
export function emit(run: Run, body: RunEventBody): void {
  const { abort, options, turn } = run;
  // A run that was interrupted has no say any more.
  if (abort.signal.aborted && abort.signal.reason !== 'cancel') return;
  const event = body as RunEvent;
  event.conversation = options.base.conversation;
  event.run = options.base.run;
  event.turn = turn;
  options.emit(event);
}

/** Writes to the journal what is unwritten, then the entry. Rejects with the lane's rejection. */
export function write(run: Run, entry?: JournalEntry): Promise<void> {
  const batch = run.unwritten;
  if (entry) batch.push(entry);
  if (batch.length === 0) return Promise.resolve();
  run.unwritten = [];
  return run.options.journal(batch);
}

/** Calls a hook. If it throws, that is logged and undefined comes back; only the end of the run passes through. */
export async function ask<T>(run: Run, hook: string, call: () => T | Promise<T>): Promise<T | undefined> {
  try {
    const answer = call();
    return answer instanceof Promise ? await run.abort.race(answer) : answer;
  } catch (error) {
    if (isStop(error)) throw error;
    run.options.log.error({ error, hook }, 'a hook failed: the run goes on without it');
    return undefined;
  }
}

const isStop = (error: unknown): error is Stop =>
  error instanceof Cancelled || error instanceof RunInterrupted;

export function addUsage(run: Run, usage: Usage | undefined): void {
  if (!usage) return;
  run.usage.input += usage.input;
  run.usage.output += usage.output;
  run.usage.cached += usage.cached;
}

/** Takes a user message into the run: shown to the model, kept, announced. */
export function takeIn(run: Run, { message, id, at, sender }: AgentPrompt): void {
  run.transcript.append({ message, at: at ?? run.options.clock.now(), ...(id === undefined ? {} : { id }) });
  if (sender) run.sender = sender;
  announce(run, message, id);
}

export function announce(run: Run, message: Message, id?: string): void {
  const named = id === undefined ? {} : { id };
  emit(run, { type: 'message_start', role: message.role, ...named });
  emit(run, { type: 'message_end', message, ...named });
}
