// ConversationStore on Redis: each operation is one script on one shard, one round trip.
import { joins } from '../../domain/inbound.ts';
import type { ConversationStore } from '../../ports/store.ts';
import { readJoining, readSnapshot } from '../formats.ts';
import { conversationKeys, nameOf } from './keys.ts';
import { entryOf, jsonOf, texts, type RedisContext } from './operations.ts';

export interface StoreOptions {
  dedupeMs: number;
  /** 0: the history is kept for good. */
  historyTtlMs: number;
}

export function createStore({ operate, channels }: RedisContext, options: StoreOptions): ConversationStore {
  const { dedupeMs, historyTtlMs } = options;

  return {
    async append(message, { maxWaiting = 0 } = {}) {
      const k = conversationKeys(message.conversation);
      const id = nameOf(message.id);
      const reply = await operate(
        'append',
        [k.meta, k.inbox, k.seen, k.seenOrder, k.pending, k.activity],
        [
          id,
          entryOf(`${joins(message) ? 'j' : 'f'}${id}`, message),
          k.name,
          dedupeMs,
          channels.signals,
          maxWaiting,
        ],
      );
      return { duplicate: reply === 1, ...(reply === 2 ? { full: true } : {}) };
    },

    async claim(conversation, { run, leaseMs, limit }) {
      const k = conversationKeys(conversation);
      const reply = (await operate(
        'claim',
        [k.meta, k.inbox, k.history, k.journal, k.seen, k.pending],
        [run, leaseMs, limit, k.name, historyTtlMs],
      )) as ClaimReply;
      if (reply[0] === 'held') return { status: 'held', forMs: reply[1] };
      if (reply[0] === 'empty') return { status: 'empty' };
      const [, claimed, epoch, generation, attempt, cancelled, from, summary, inbox, context, journal] =
        reply;
      const lease = { conversation, run: claimed, epoch, generation };
      const read = readSnapshot({ context, inbox: inbox.map(jsonOf), journal });
      if ('newer' in read) {
        await operate('release', [k.meta], [epoch]);
        return { status: 'newer', version: read.newer };
      }
      return {
        status: 'claimed',
        lease,
        snapshot: {
          ...read,
          contextFrom: from,
          ...(summary ? { summary } : {}),
          attempt,
          cancelled: cancelled === 1,
        },
      };
    },

    async renew(lease, leaseMs) {
      const { meta } = conversationKeys(lease.conversation);
      const reply = await operate('renew', [meta], [lease.epoch, leaseMs]);
      return reply === -1 ? undefined : { cancelled: reply === 1 };
    },

    async release(lease) {
      const { meta } = conversationKeys(lease.conversation);
      return (await operate('release', [meta], [lease.epoch])) === 1;
    },

    async journal(lease, entries) {
      const k = conversationKeys(lease.conversation);
      const steps = entries.map((entry) => JSON.stringify(entry));
      return (await operate('journal', [k.meta, k.journal], [lease.epoch, ...steps])) === 1;
    },

    async drain(lease, limit) {
      const k = conversationKeys(lease.conversation);
      const reply = await operate('drain', [k.meta, k.inbox, k.seen], [lease.epoch, limit]);
      if (reply === null) return undefined;
      const messages = readJoining(texts(reply).map(jsonOf));
      if (messages === undefined) await operate('release', [k.meta], [lease.epoch]);
      return messages;
    },

    async commit(lease, { entries, deliveries, outcome, context, usage }) {
      const k = conversationKeys(lease.conversation);
      const status = { state: outcome.status, reply: outcome.reply, run: lease.run };
      const reply = await operate(
        'commit',
        [
          k.meta,
          k.inbox,
          k.history,
          k.journal,
          k.seen,
          k.pending,
          k.outbox,
          k.outboxes,
          k.activity,
          k.failed,
          k.failedAt,
        ],
        [
          lease.epoch,
          lease.generation,
          k.name,
          JSON.stringify(status),
          usage?.input ?? 0,
          usage?.output ?? 0,
          usage?.cached ?? 0,
          context?.from ?? '',
          context?.summary ?? '',
          historyTtlMs,
          JSON.stringify(lease.run),
          outcome.status === 'failed' ? JSON.stringify(outcome.error ?? '') : '',
          dedupeMs,
          entries.length,
          ...entries.map((entry) => JSON.stringify(entry)),
          ...deliveries.map((delivery) => entryOf(nameOf(delivery.id), delivery)),
        ],
      );
      return reply === -1 ? false : { more: reply === 1 };
    },

    async reset(conversation) {
      const k = conversationKeys(conversation);
      const run = await operate('reset', [k.meta, k.history, k.journal], [k.name, channels.signals]);
      return run === null ? {} : { cancelledRun: run as string };
    },
  };
}

type ClaimReply =
  | ['held', number]
  | ['empty']
  | [
      'claimed',
      run: string,
      epoch: number,
      generation: number,
      attempt: number,
      cancelled: number,
      from: number,
      summary: string | null,
      inbox: string[],
      context: string[],
      journal: string[],
    ];
