// What the contract suites share: the harness that a backend gives them, and builders of plain data.
import { afterEach, beforeEach, vi } from 'vitest';
import type { Delivery } from '../../../src/domain/delivery.ts';
import type { RunEvent } from '../../../src/domain/events.ts';
import type { InboundMessage } from '../../../src/domain/inbound.ts';
import type { HistoryEntry } from '../../../src/domain/messages.ts';
import type { Storage } from '../../../src/ports/storage.ts';
import type { ClaimResult, ConversationStore, Merge } from '../../../src/ports/store.ts';

/** One empty set of data, and the ways into it. Made anew for every test. */
export interface Backing {
  /** True: every open() is one more process's worth of connections. False: one process; open() gives the same storage. */
  shared: boolean;
  /** Upper bound of the events that the event log keeps for one conversation. */
  eventsKept: number;
  open(): Promise<Storage>;
  /** Closes all that was opened, lanes first, and removes the data. */
  dispose(): Promise<void>;
}

export type MakeBacking = () => Promise<Backing>;

/** Gives each test of the surrounding describe a backing of its own. */
export function useBacking(make: MakeBacking): () => Backing {
  let backing: Backing | undefined;
  beforeEach(async () => {
    backing = await make();
  });
  afterEach(async () => {
    await backing?.dispose();
    backing = undefined;
  });
  return () => {
    if (backing === undefined) throw new Error('no backing outside a test');
    return backing;
  };
}

/** Longer than any test: a lease that does not expire by itself. */
export const LONG_MS = 600_000;

export const inbound = (
  conversation: string,
  id: string,
  more: Partial<InboundMessage> = {},
): InboundMessage => ({
  id,
  conversation,
  account: 'acct',
  at: 1_700_000_000_000,
  sender: { id: 'u1', name: 'Ann' },
  text: `text of ${id}`,
  busy: 'steer',
  ...more,
});

export const userEntry = (run: string, text: string): HistoryEntry => ({
  role: 'user',
  content: [{ type: 'text', text }],
  at: 1,
  run,
});

export const assistantEntry = (run: string, text: string): HistoryEntry => ({
  role: 'assistant',
  content: [{ type: 'text', text }],
  at: 2,
  run,
  model: 'm',
  stop: 'stop',
});

export const delivery = (conversation: string, id: string, more: Partial<Delivery> = {}): Delivery => ({
  id,
  conversation,
  account: 'acct',
  run: id.slice(0, id.lastIndexOf('.')),
  messages: ['m1'],
  address: { url: 'https://example.org/hook' },
  status: 'done',
  reply: { text: `reply ${id}` },
  at: 3,
  ...more,
});

export const merge = (more: Partial<Merge> = {}): Merge => ({
  entries: [],
  deliveries: [],
  outcome: { status: 'done', reply: { text: 'ok' } },
  ...more,
});

export const update = (conversation: string, delta: string): RunEvent => ({
  conversation,
  run: 'r1',
  turn: 1,
  type: 'message_update',
  delta,
});

export type Claimed = Extract<ClaimResult, { status: 'claimed' }>;

/** Claims at once, or fails. */
export async function claimed(
  store: ConversationStore,
  conversation: string,
  run: string,
  options: { leaseMs?: number; limit?: number } = {},
): Promise<Claimed> {
  const result = await store.claim(conversation, {
    run,
    leaseMs: options.leaseMs ?? LONG_MS,
    limit: options.limit ?? 20,
  });
  if (result.status !== 'claimed') throw new Error(`claim of ${conversation}: ${JSON.stringify(result)}`);
  return result;
}

/** Claims as soon as the lease that is held has expired. */
export function claimedLater(
  store: ConversationStore,
  conversation: string,
  run: string,
  options: { leaseMs?: number; limit?: number } = {},
): Promise<Claimed> {
  return vi.waitFor(() => claimed(store, conversation, run, options), { timeout: 10_000, interval: 10 });
}

/** Puts deliveries into the outbox by way of a whole run. */
export async function commitDeliveries(
  store: ConversationStore,
  conversation: string,
  run: string,
  deliveries: Delivery[],
): Promise<void> {
  await store.append(inbound(conversation, `for-${run}`));
  const { lease } = await claimed(store, conversation, run);
  const done = await store.commit(lease, merge({ deliveries }));
  if (done === false) throw new Error('commit was refused');
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Names that have to be data and nothing else, wherever they end up. */
export const ODD_NAMES = [
  'plain',
  'a:b:c',
  ':',
  '{',
  '}{',
  '{tag}',
  '{tag}:x',
  'with space',
  ' lead and trail ',
  'new\nline\r\n',
  'tab\t',
  `quotes '"\``,
  'back\\slash',
  '表情😀👩‍👩‍👧',
  'é vs e\u0301',
  'مرحبا',
  '*?[a-z]',
  '%s $1 $(id)',
  "'; DROP TABLE messages; --",
  '__proto__',
  'constructor',
  '../../etc/passwd',
  'nul\u0000inside',
  'x'.repeat(256),
];
