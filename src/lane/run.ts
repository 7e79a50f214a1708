// One run: context and prompts for the agent (copy), the agent (delegate), the commit (merge). Called by lane.ts with a
// lease; whatever a stale run does, its commit is refused.
import {
  runAgent,
  type AgentHooks,
  type AgentPrompt,
  type AgentResult,
  type Calibration,
} from '../agent/index.ts';
import type { Config, SpendingLimits } from '../../config/schema.ts';
import { dayOf, spenderOf, spendingOf } from '../domain/day.ts';
import { AppError } from '../domain/errors.ts';
import type { RunEvent } from '../domain/events.ts';
import type { InboundMessage, Sender } from '../domain/inbound.ts';
import type { HistoryEntry, Usage } from '../domain/messages.ts';
import { languageOf, sentence } from '../domain/sentences.ts';
import type { Clock } from '../ports/clock.ts';
import type { RunEventLog } from '../ports/events.ts';
import type { LaneOutcome, LaneQueue } from '../ports/lanes.ts';
import type { Logger } from '../ports/log.ts';
import type { MediaStore } from '../ports/media.ts';
import type { ModelClient } from '../ports/model.ts';
import type { Preference, Preferences } from '../ports/preferences.ts';
import type { Spending } from '../ports/spending.ts';
import type { ConversationStore, Lease, Merge, Snapshot } from '../ports/store.ts';
import type { Tool } from '../ports/tool.ts';
import type { ActiveRun } from './active-runs.ts';
import { deliveriesOf } from './merge.ts';
import { createPublisher } from './publisher.ts';
import { createModelRenderer, storedContent } from './render.ts';

export interface RunOptions {
  store: ConversationStore;
  events: RunEventLog;
  /** Woken when a commit queued deliveries. */
  deliveries: LaneQueue;
  /** The entry of that name if there is one, else the default. */
  model: (name?: string) => ModelClient | Promise<ModelClient>;
  /** Sorted by name; frozen for the run. */
  tools: () => Tool[] | Promise<Tool[]>;
  /** Why a call is refused to these people, in words for the model; undefined: it may be made. Absent: all may. */
  refusal?: () => Refusal | undefined;
  prompt: () => Promise<string>;
  preferences: Preferences;
  spending: Spending;
  /** Token estimates, learned across runs. */
  calibration: Calibration;
  /** Files of tools. */
  media: MediaStore;
  clock: Clock;
  /** Told of every event, in order. */
  onEvent: (account: string, event: RunEvent) => void;
}

type Refusal = (
  tool: Tool,
  args: Record<string, unknown>,
  user: { conversation: string; people: readonly Sender[] },
) => string | undefined;

export interface Claimed {
  lease: Lease;
  snapshot: Snapshot;
  run: ActiveRun;
  config: Config;
  account: string;
  /** What ended the attempt before this one, if that was here and said so. */
  lastError: string | undefined;
  log: Logger;
}

type LimitReached = 'usage_limit_user' | 'usage_limit_conversation';

/** Resolves with what is left to do, or 'lost' if the merge was refused; rejects with RunInterrupted or an AppError. */
export type Run = (claimed: Claimed) => Promise<LaneOutcome | 'lost'>;

export function createRun(options: RunOptions): Run {
  const toModel = createModelRenderer(Intl.DateTimeFormat().resolvedOptions().timeZone);

  async function wakeDeliveries(conversation: string, log: Logger): Promise<void> {
    try {
      await options.deliveries.wake(conversation);
    } catch (error) {
      log.warn({ error }, 'delivery wake failed; the sweep will pick it up');
    }
  }

  async function limitReached(
    [user, conversation]: readonly [string, string],
    { tokens_per_day_user, tokens_per_day_conversation, time_zone }: SpendingLimits,
  ): Promise<LimitReached | undefined> {
    const day = dayOf(options.clock.now(), time_zone);
    const reached = async (who: string, tokens: number): Promise<boolean> => {
      if (tokens === 0) return false;
      const { input, output } = await options.spending.of(day, who);
      return input + output >= tokens;
    };
    if (await reached(user, tokens_per_day_user)) return 'usage_limit_user';
    return (await reached(conversation, tokens_per_day_conversation))
      ? 'usage_limit_conversation'
      : undefined;
  }

  async function count(
    who: readonly string[],
    usage: Usage,
    { time_zone }: SpendingLimits,
    log: Logger,
  ): Promise<void> {
    try {
      await options.spending.add(dayOf(options.clock.now(), time_zone), who, usage);
    } catch (error) {
      log.warn({ error }, "the run's tokens are missing in the daily count");
    }
  }

  return async ({ lease, snapshot, run, config, account, lastError, log }) => {
    const { store, clock } = options;
    const { conversation } = lease;
    const taken = new Map(snapshot.inbox.map((message) => [message.id, message]));
    const newest = snapshot.inbox.at(-1)!;
    const group = newest.group === true;
    const language = languageOf(newest.text);
    const publisher = createPublisher(options.events, conversation, log);
    let end: RunEvent | undefined;

    const emit = (event: RunEvent): void => {
      // The end is announced when the merge is done, not before.
      if (event.type === 'agent_end') {
        end = event;
        return;
      }
      options.onEvent(account, event);
      publisher.push(asStored(event, taken));
    };
    const prompt = (message: InboundMessage): AgentPrompt => {
      const { id, at, sender, notes } = message;
      const stored = { content: storedContent(message), at, sender, group, ...(notes ? { notes } : {}) };
      return { id, at, sender, message: toModel(stored) };
    };
    const drain = async (mode: 'one-at-a-time' | 'all'): Promise<AgentPrompt[]> => {
      if (!run.arrived) return [];
      const limit = mode === 'all' ? config.agent.max_batch : 1;
      run.arrived = false;
      const messages = await store.drain(lease, limit);
      if (!messages) return lost(run);
      // As many as were asked for: there may be more.
      if (messages.length === limit) run.arrived = true;
      for (const message of messages) taken.set(message.id, message);
      return messages.map(prompt);
    };
    const refusal = options.refusal?.();
    const answer = async ({ model, compact }: Preference): Promise<AgentResult> => {
      const marked = snapshot.context.findLastIndex((entry) => entry.run === compact);
      return runAgent({
        messages: snapshot.context.map((entry, n) => {
          const shown = entry.id === undefined ? entry : toModel({ ...entry, group });
          return n === marked ? { ...shown, compact: true } : shown;
        }),
        ...(snapshot.summary === undefined ? {} : { summary: snapshot.summary }),
        contextFrom: snapshot.contextFrom,
        prompts: snapshot.inbox.map(prompt),
        resume: snapshot.journal,
        system: await options.prompt(),
        tools: await options.tools(),
        model: await options.model(model),
        settings: config.agent,
        language,
        ...(refusal ? { hooks: permissionHook(refusal, conversation, taken) } : {}),
        base: { conversation, run: lease.run, account, sender: newest.sender, group, cacheKey: conversation },
        signal: run.controller.signal,
        emit,
        journal: async (entries) => {
          if (!(await store.journal(lease, entries))) lost(run);
        },
        steering: () => drain(config.agent.steering),
        followUp: () => drain(config.agent.follow_up),
        calibration: options.calibration,
        media: options.media,
        clock,
        log,
      });
    };

    log.info({ messages: snapshot.inbox.length, attempt: snapshot.attempt }, 'run started');
    if (snapshot.cancelled) run.controller.abort('cancel');
    const givenUp = snapshot.attempt > config.workers.max_attempts;
    if (givenUp) log.error({ attempt: snapshot.attempt }, 'run given up: no attempt reached its end');
    const refuse = (code: 'given_up' | LimitReached) =>
      unanswered(lease, snapshot, { code, lastError }, sentence(code, language), emit);
    const spenders = [spenderOf(account, newest.sender.id), spendingOf(conversation)] as const;
    let result: AgentResult;
    if (givenUp) {
      result = refuse('given_up');
    } else {
      const [preference, limit] = await Promise.all([
        options.preferences.get(conversation),
        // A run that had begun goes on: its tools may have acted.
        snapshot.journal.length > 0 ? undefined : limitReached(spenders, config.limits),
      ]);
      result = limit ? refuse(limit) : await answer(preference);
    }

    const { status, error, attachments } = result;
    const reply = { text: result.reply, ...(attachments ? { attachments } : {}) };
    const outcome = { status, reply, ...(error === undefined ? {} : { error }) };
    const merge: Merge = {
      entries: historyEntries(result, lease.run, taken),
      deliveries: deliveriesOf(lease.run, [...taken.values()], outcome, clock.now()),
      outcome,
      usage: result.usage,
      ...(result.context ? { context: result.context } : {}),
    };
    const committed = await store.commit(lease, merge);
    if (!committed) {
      log.warn({}, 'merge refused: another worker took the conversation over');
      return 'lost';
    }
    if (end) {
      options.onEvent(account, end);
      publisher.push(end);
    }
    await Promise.all([
      publisher.flush(),
      merge.deliveries.length > 0 ? wakeDeliveries(conversation, log) : undefined,
      result.turns > 0 ? count(spenders, result.usage, config.limits, log) : undefined,
    ]);
    const { stop, turns, usage } = result;
    log.info({ status, stop, turns, ...usage }, 'run committed');
    return committed.more ? 'more' : 'idle';
  };
}

/** A call must be allowed to everybody whose message the run has taken: an admin's next message lends no rights to others. */
function permissionHook(
  refusal: Refusal,
  conversation: string,
  taken: ReadonlyMap<string, InboundMessage>,
): AgentHooks {
  return {
    beforeToolCall({ tool, args }) {
      const people = [...taken.values()].map(({ sender }) => sender);
      const reason = refusal(tool, args, { conversation, people });
      return reason === undefined ? undefined : { block: true, reason };
    },
  };
}

/** The store refused: stop as a run that lost its lease. */
function lost(run: ActiveRun): never {
  run.controller.abort('lost');
  throw new AppError('lease_lost', 'The run lost its lease.');
}

/** What people see of a message is what was said, not what the model was told about it. */
function asStored(event: RunEvent, taken: ReadonlyMap<string, InboundMessage>): RunEvent {
  const inbound = event.type === 'message_end' && event.id !== undefined ? taken.get(event.id) : undefined;
  if (!inbound || event.type !== 'message_end') return event;
  return { ...event, message: { role: 'user', content: storedContent(inbound) } };
}

/** What people said goes into the history as they said it; the rest as the agent made it. */
function historyEntries(
  result: AgentResult,
  run: string,
  taken: ReadonlyMap<string, InboundMessage>,
): HistoryEntry[] {
  return result.entries.map(({ message, ...entry }) => {
    const inbound = entry.id === undefined ? undefined : taken.get(entry.id);
    if (!inbound) return { ...message, ...entry, run };
    const { id, at, sender, notes } = inbound;
    const content = storedContent(inbound);
    return { role: 'user', content, at, run, id, sender, ...(notes ? { notes } : {}) };
  });
}

const givenUpBecause = (attempts: number, lastError = 'the process that ran it ended, or lost it'): string =>
  `given_up: ${attempts} attempts came to no end; the last one: ${lastError}`;

/** Answered with a fixed sentence, without running: its process died at every attempt, or a limit is reached. */
function unanswered(
  lease: Lease,
  snapshot: Snapshot,
  { code, lastError }: { code: string; lastError: string | undefined },
  reply: string,
  emit: (event: RunEvent) => void,
): AgentResult {
  const base = { conversation: lease.conversation, run: lease.run, turn: 0 };
  const messages = snapshot.inbox.map((message) => message.id);
  const { at } = snapshot.inbox.at(-1)!;
  const result: AgentResult = {
    entries: [
      ...snapshot.inbox.map((message) => ({
        id: message.id,
        at: message.at,
        message: { role: 'user' as const, content: storedContent(message) },
      })),
      { at, stop: 'error', message: { role: 'assistant', content: [{ type: 'text', text: reply }] } },
    ],
    reply,
    status: 'failed',
    error: code === 'given_up' ? givenUpBecause(snapshot.attempt - 1, lastError) : code,
    stop: 'error',
    usage: { input: 0, output: 0, cached: 0 },
    turns: 0,
  };
  const { status, stop, usage, turns } = result;
  emit({ ...base, type: 'agent_start', messages });
  emit({ ...base, type: 'error', code, message: reply });
  emit({ ...base, type: 'agent_end', status, reply, stop, usage, turns });
  return result;
}
