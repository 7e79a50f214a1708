// The merge of a run: its messages as history entries, and one delivery for each place that waits for the answer.
import type { AgentResult } from '../agent/index.ts';
import type { Delivery, Reply } from '../domain/delivery.ts';
import type { InboundMessage } from '../domain/inbound.ts';
import type { HistoryEntry } from '../domain/messages.ts';
import { storedContent } from './render.ts';

/** What people said goes into the history as they said it; the rest as the agent made it. */
export function historyEntries(
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

/** One delivery per distinct reply target, addressed as its newest message says; messages without a target get none. */
export function deliveriesOf(
  run: string,
  taken: readonly InboundMessage[],
  outcome: { status: 'done' | 'failed'; reply: Reply },
  at: number,
): Delivery[] {
  const groups = new Map<string, InboundMessage[]>();
  for (const message of taken) {
    if (!message.replyTo) continue;
    const key = `${message.account} ${message.replyTo.key}`;
    const group = groups.get(key);
    if (group) group.push(message);
    else groups.set(key, [message]);
  }
  return [...groups.values()].map((group, n) => {
    const newest = group.at(-1)!;
    return {
      id: `${run}.${n}`,
      conversation: newest.conversation,
      account: newest.account,
      run,
      messages: group.map((message) => message.id),
      address: newest.replyTo!.address,
      status: outcome.status,
      reply: outcome.reply,
      at,
    };
  });
}
