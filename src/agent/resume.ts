// An interrupted run's journal → where it stopped: the messages it had made, and the batch it was in. Results that are in
// the journal are final: their tools never run again.
import type { Message, ToolResultBlock, ToolUseBlock, Usage } from '../domain/messages.ts';
import { textOf } from '../domain/messages.ts';
import type { JournalEntry } from '../ports/store.ts';
import type { AgentPrompt } from './prompt.ts';
import type { AgentEntry } from './types.ts';

export interface Resumed {
  /** False: the journal has no step of a run. */
  interrupted: boolean;
  /** Prompts that the run started with, and those that it had taken but the model has not seen. */
  initial: AgentPrompt[];
  waiting: AgentPrompt[];
  /** Complete messages after the initial prompts. */
  chain: AgentEntry[];
  /** The last assistant message, if it has calls: their results so far, and the calls that had started. */
  open?: OpenBatch;
  /** The last message is an answer, and nothing came after it. */
  answered: boolean;
  turns: number;
  usage: Usage;
  /** Texts that answered the user. */
  finals: string[];
  /** post_process tools that had started. */
  postStarted: Set<string>;
}

export interface OpenBatch {
  entry: AgentEntry;
  calls: ToolUseBlock[];
  done: Map<string, { block: ToolResultBlock; terminate: boolean }>;
  started: Set<string>;
}

/** Call id of a post_process tool's start in the journal. */
export const postCallId = (tool: string) => `post:${tool}`;

/** Anything else is no step: the first releases knew a kind for drafts. */
const STEPS: ReadonlySet<string> = new Set<JournalEntry['kind']>([
  'assistant',
  'tool_start',
  'tool_result',
  'steered',
]);

/** `at`: the time that rebuilt messages get. */
export function readJournal(journal: readonly JournalEntry[], prompts: AgentPrompt[], at: number): Resumed {
  const steps = journal.filter(({ kind }) => STEPS.has(kind));
  const byId = new Map(prompts.flatMap((prompt) => (prompt.id === undefined ? [] : [[prompt.id, prompt]])));
  const resumed: Resumed = {
    interrupted: steps.length > 0,
    initial: prompts,
    waiting: [],
    chain: [],
    answered: false,
    turns: 0,
    usage: { input: 0, output: 0, cached: 0 },
    finals: [],
    postStarted: new Set(),
  };
  const take = (ids: readonly string[]) =>
    ids.flatMap((id) => {
      const prompt = byId.get(id);
      byId.delete(id);
      return prompt ?? [];
    });

  for (const [n, step] of steps.entries()) {
    switch (step.kind) {
      case 'steered': {
        const taken = take(step.messages);
        // The first step names the messages that the run started with.
        if (n === 0) resumed.initial = [...prompts.filter(({ id }) => id === undefined), ...taken];
        else for (const prompt of taken) chainPrompt(resumed, prompt, at);
        break;
      }
      case 'assistant':
        closeBatch(resumed, at);
        readAssistant(resumed, step, at);
        break;
      case 'tool_start':
        if (step.call_id.startsWith('post:')) resumed.postStarted.add(step.call_id);
        else resumed.open?.started.add(step.call_id);
        break;
      case 'tool_result':
        if (step.block.type === 'tool_result') {
          resumed.open?.done.set(step.call_id, { block: step.block, terminate: step.terminate === true });
        }
    }
  }
  const last = resumed.open ? undefined : resumed.chain.at(-1);
  resumed.answered = last?.message.role === 'assistant';
  if (steps[0]?.kind === 'steered') resumed.waiting = [...byId.values()];
  return resumed;
}

function chainPrompt(resumed: Resumed, { message, id, at }: AgentPrompt, now: number): void {
  closeBatch(resumed, now);
  resumed.chain.push({ message, at: at ?? now, ...(id === undefined ? {} : { id }) });
}

function readAssistant(
  resumed: Resumed,
  { message, model, stop, usage }: JournalEntry & { kind: 'assistant' },
  at: number,
): void {
  resumed.turns++;
  for (const key of ['input', 'output', 'cached'] as const) resumed.usage[key] += usage?.[key] ?? 0;
  const entry: AgentEntry = {
    message,
    at,
    ...(model === undefined ? {} : { model }),
    ...(stop === undefined ? {} : { stop: stop as NonNullable<AgentEntry['stop']> }),
  };
  const calls = message.content.filter((block) => block.type === 'tool_use');
  if (calls.length > 0) {
    resumed.open = { entry, calls, done: new Map(), started: new Set() };
  } else {
    resumed.chain.push(entry);
    resumed.finals.push(textOf(message.content));
  }
}

/** The batch is over: its message and its results become part of the chain. Missing results are completed by repair. */
function closeBatch(resumed: Resumed, at: number): void {
  if (!resumed.open) return;
  const { entry, calls, done } = resumed.open;
  const content = calls.flatMap(({ id }) => done.get(id)?.block ?? []);
  const results: Message = { role: 'user', content };
  resumed.chain.push(entry, { message: results, at });
  delete resumed.open;
}
