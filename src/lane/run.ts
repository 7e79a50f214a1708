// One run, of a conversation that lane.ts has claimed: the agent's answer (answer.ts) or a refusal, then the commit that
// merges it. Whatever a stale run does, its commit is refused.
import type { AgentResult } from '../agent/index.ts';
import type { RunEvent } from '../domain/events.ts';
import type { InboundMessage } from '../domain/inbound.ts';
import { languageOf } from '../domain/sentences.ts';
import type { RunEventLog } from '../ports/events.ts';
import type { LaneOutcome, LaneQueue } from '../ports/lanes.ts';
import type { Logger } from '../ports/log.ts';
import type { Preferences } from '../ports/preferences.ts';
import type { Spending } from '../ports/spending.ts';
import type { Merge } from '../ports/store.ts';
import { createAnswer, type AnswerOptions, type Claimed } from './answer.ts';
import { createDailyTokens } from './daily-tokens.ts';
import { deliveriesOf, historyEntries } from './merge.ts';
import { createPublisher } from './publisher.ts';
import { refuse } from './refuse.ts';
import { storedContent } from './render.ts';

export interface RunOptions extends AnswerOptions {
  events: RunEventLog;
  /** Woken when a commit queued deliveries. */
  deliveries: LaneQueue;
  preferences: Preferences;
  spending: Spending;
  /** Told of every event, in order. */
  onEvent: (account: string, event: RunEvent) => void;
}

export interface Attempt extends Claimed {
  /** What ended the attempt before this one, if that was here and said so. */
  lastError: string | undefined;
}

/** Resolves with what is left to do, or 'lost' if the merge was refused; rejects with RunInterrupted or an AppError. */
export type Run = (attempt: Attempt) => Promise<LaneOutcome | 'lost'>;

export function createRun(options: RunOptions): Run {
  const { store, clock } = options;
  const answer = createAnswer(options);
  const tokens = createDailyTokens(options.spending, clock);

  async function wakeDeliveries(conversation: string, log: Logger): Promise<void> {
    try {
      await options.deliveries.wake(conversation);
    } catch (error) {
      log.warn({ error }, 'delivery wake failed; the sweep will pick it up');
    }
  }

  return async ({ lastError, ...claimed }) => {
    const { lease, snapshot, run, config, account, log } = claimed;
    const { conversation } = lease;
    const taken = new Map(snapshot.inbox.map((message) => [message.id, message]));
    const newest = snapshot.inbox.at(-1)!;
    const language = languageOf(newest.text);
    const spender = { account, sender: newest.sender.id, conversation };
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

    async function resultOf(): Promise<AgentResult> {
      const refusal = { lease, snapshot, lastError, language, emit };
      if (snapshot.attempt > config.workers.max_attempts) {
        log.error({ attempt: snapshot.attempt }, 'run given up: no attempt reached its end');
        return refuse('given_up', refusal);
      }
      const [preference, limit] = await Promise.all([
        options.preferences.get(conversation),
        // A run that had begun goes on: its tools may have acted.
        snapshot.journal.length > 0 ? undefined : tokens.limitReached(spender, config.limits),
      ]);
      return limit ? refuse(limit, refusal) : answer(claimed, { preference, language, taken, emit });
    }

    log.info({ messages: snapshot.inbox.length, attempt: snapshot.attempt }, 'run started');
    if (snapshot.cancelled) run.controller.abort('cancel');
    const result = await resultOf();

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
      result.turns > 0 ? tokens.count(spender, result.usage, config.limits, log) : undefined,
    ]);
    const { stop, turns, usage } = result;
    log.info({ status, stop, turns, ...usage }, 'run committed');
    return committed.more ? 'more' : 'idle';
  };
}

/** What people see of a message is what was said, not what the model was told about it. */
function asStored(event: RunEvent, taken: ReadonlyMap<string, InboundMessage>): RunEvent {
  const inbound = event.type === 'message_end' && event.id !== undefined ? taken.get(event.id) : undefined;
  if (!inbound || event.type !== 'message_end') return event;
  return { ...event, message: { role: 'user', content: storedContent(inbound) } };
}
