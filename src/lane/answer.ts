// Delegate: what the agent gets of a claimed conversation, its copy of the context and the prompts in the model's form,
// and how messages that arrive meanwhile come in. Part of run.ts, which merges what comes back.
import {
  runAgent,
  type AgentHooks,
  type AgentPrompt,
  type AgentResult,
  type Calibration,
} from '../agent/index.ts';
import type { Config } from '../../config/schema.ts';
import { AppError } from '../domain/errors.ts';
import type { RunEvent } from '../domain/events.ts';
import type { InboundMessage, Sender } from '../domain/inbound.ts';
import type { Language } from '../domain/sentences.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/log.ts';
import type { MediaStore } from '../ports/media.ts';
import type { ModelClient } from '../ports/model.ts';
import type { Preference } from '../ports/preferences.ts';
import type { ConversationStore, Lease, Snapshot } from '../ports/store.ts';
import type { Tool } from '../ports/tool.ts';
import type { ActiveRun } from './active-runs.ts';
import { createModelRenderer, storedContent } from './render.ts';

export interface AnswerOptions {
  store: ConversationStore;
  /** The entry of that name if there is one, else the default. */
  model: (name?: string) => ModelClient | Promise<ModelClient>;
  /** Sorted by name; frozen for the run. */
  tools: () => Tool[] | Promise<Tool[]>;
  /** Why a call is refused to these people, in words for the model; undefined: it may be made. Absent: all may. */
  refusal?: () => Refusal | undefined;
  prompt: () => Promise<string>;
  /** Token estimates, learned across runs. */
  calibration: Calibration;
  /** Files of tools. */
  media: MediaStore;
  clock: Clock;
}

type Refusal = (
  tool: Tool,
  args: Record<string, unknown>,
  user: { conversation: string; people: readonly Sender[] },
) => string | undefined;

/** What a run works on. */
export interface Claimed {
  lease: Lease;
  snapshot: Snapshot;
  run: ActiveRun;
  config: Config;
  account: string;
  log: Logger;
}

export interface Asked {
  preference: Preference;
  /** Of the fixed sentences. */
  language: Language;
  /** The messages that the run answers, by id; those that it takes on its way are added. */
  taken: Map<string, InboundMessage>;
  /** Called synchronously, in order. */
  emit: (event: RunEvent) => void;
}

/** Rejects with RunInterrupted or an AppError. */
export type Answer = (claimed: Claimed, asked: Asked) => Promise<AgentResult>;

export function createAnswer(options: AnswerOptions): Answer {
  const { store } = options;
  const toModel = createModelRenderer(Intl.DateTimeFormat().resolvedOptions().timeZone);

  return async ({ lease, snapshot, run, config, account, log }, { preference, language, taken, emit }) => {
    const { conversation } = lease;
    const { sender, group = false } = snapshot.inbox.at(-1)!;

    const prompt = (message: InboundMessage): AgentPrompt => {
      const { id, at, sender: from, notes } = message;
      const stored = {
        content: storedContent(message),
        at,
        sender: from,
        group,
        ...(notes ? { notes } : {}),
      };
      return { id, at, sender: from, message: toModel(stored) };
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
    const marked = snapshot.context.findLastIndex((entry) => entry.run === preference.compact);

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
      model: await options.model(preference.model),
      settings: config.agent,
      language,
      ...(refusal ? { hooks: permissionHook(refusal, conversation, taken) } : {}),
      base: { conversation, run: lease.run, account, sender, group, cacheKey: conversation },
      signal: run.controller.signal,
      emit,
      journal: async (entries) => {
        if (!(await store.journal(lease, entries))) lost(run);
      },
      steering: () => drain(config.agent.steering),
      followUp: () => drain(config.agent.follow_up),
      calibration: options.calibration,
      media: options.media,
      clock: options.clock,
      log,
    });
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
