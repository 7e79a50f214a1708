// The promises, as checks over what a round left in the storage and in the recordings. Pure: facts in, violations out.
import type { HistoryEntry } from '../../../src/domain/messages.ts';
import type { Callback } from './receiver.ts';
import type { Recorded } from './rig.ts';

export interface CheckedConversation {
  /** As the server names it. */
  id: string;
  /** Of the receiver's path. */
  chat: string;
  /** Accepted messages; in the order of their acceptance, if that is known. */
  accepted: string[];
  ordered: boolean;
}

export interface Facts {
  conversations: CheckedConversation[];
  histories: ReadonlyMap<string, readonly HistoryEntry[]>;
  callbacks: readonly Callback[];
  record: readonly Recorded[];
  leftovers: readonly string[];
  lines: readonly string[];
  secrets: readonly string[];
  /** What the strict model had to say against requests. */
  rejected: readonly string[];
}

export interface Violation {
  rule: string;
  detail: string;
  conversation?: string;
}

export function check(facts: Facts): Violation[] {
  const found: Violation[] = [];
  for (const conversation of facts.conversations) {
    const add = (rule: string, detail: string) => found.push({ rule, detail, conversation: conversation.id });
    const history = facts.histories.get(conversation.id) ?? [];
    checkMerges(conversation, history, add);
    checkShape(history, add);
    checkAnswers(
      conversation,
      history,
      facts.callbacks.filter((callback) => callback.conversation === conversation.chat),
      add,
    );
    const record = facts.record.filter((entry) => entry.conversation === conversation.id);
    checkTools(record, add);
    checkCommits(record, add);
  }
  for (const name of facts.leftovers) found.push({ rule: 'all empty at the end', detail: name });
  for (const detail of facts.rejected) found.push({ rule: 'the model gets valid histories', detail });
  for (const secret of facts.secrets) {
    const line = facts.lines.find((text) => text.includes(secret));
    if (line) found.push({ rule: 'no secret in a log', detail: line.slice(0, 300) });
  }
  return found;
}

type Add = (rule: string, detail: string) => void;

function checkMerges(
  { accepted, ordered }: CheckedConversation,
  history: readonly HistoryEntry[],
  add: Add,
): void {
  const merged = history.flatMap(({ id }) => id ?? []);
  for (const id of accepted) {
    const times = merged.filter((other) => other === id).length;
    if (times !== 1) add('each accepted message once in the history', `${id}: ${times} times`);
  }
  for (const id of merged) if (!accepted.includes(id)) add('only accepted messages in the history', id);
  if (ordered && new Set(merged).size === merged.length && merged.join() !== accepted.join())
    add('arrival order', `history ${merged.join(' ')}, accepted ${accepted.join(' ')}`);
  const runs = history.map(({ run }) => run).filter((run, n, all) => run !== all[n - 1]);
  if (new Set(runs).size !== runs.length) add('runs do not interleave', runs.join(' '));
}

/** Calls and results are paired, and what a run says is what it ends with. */
function checkShape(history: readonly HistoryEntry[], add: Add): void {
  let open: string[] = [];
  const ids = new Set<string>();
  for (const [n, entry] of history.entries()) {
    const results = entry.content.flatMap((block) =>
      block.type === 'tool_result' ? [block.tool_use_id] : [],
    );
    if (open.length > 0 || results.length > 0) {
      if (results.join() !== open.join())
        add(
          'calls and results are paired',
          `entry ${n}: results ${results.join(' ')}, calls ${open.join(' ')}`,
        );
    }
    open = entry.content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : []));
    if (entry.role !== 'assistant' && open.length > 0) add('only the assistant calls', `entry ${n}`);
    for (const id of open) {
      if (ids.has(id)) add('call ids are unique', id);
      ids.add(id);
    }
    const next = history[n + 1];
    if (next?.run !== entry.run && entry.role !== 'assistant') add('a run ends with an answer', `entry ${n}`);
  }
  if (open.length > 0) add('calls and results are paired', `no results of ${open.join(' ')}`);
  if (history[0]?.role === 'assistant') add('the user begins', 'the first entry is of the assistant');
}

function checkAnswers(
  { accepted, ordered }: CheckedConversation,
  history: readonly HistoryEntry[],
  callbacks: readonly Callback[],
  add: Add,
): void {
  for (const id of accepted) {
    const told = callbacks.filter(({ messages }) => messages.includes(id));
    const ids = new Set(told.map(({ deliveryId }) => deliveryId));
    if (ids.size !== 1)
      add('each message answered once', `${id}: deliveries ${[...ids].join(' ') || 'none'}`);
    if (!told.some(({ answer }) => answer === 'ok' || answer === 'slow'))
      add('each answer arrives', `${id}: ${told.map(({ answer }) => answer).join(' ')}`);
    const run = history.find((entry) => entry.id === id)?.run;
    for (const callback of told) {
      if (callback.run !== run)
        add('the answer is the merged run’s', `${id}: ${callback.run}, merged ${run}`);
      if (callback.status !== 'done') add('runs succeed', `${id}: ${callback.status}: ${callback.reply}`);
    }
  }
  const texts = new Map<string, string>();
  for (const { deliveryId, reply } of callbacks) {
    if ((texts.get(deliveryId) ?? reply) !== reply) add('resends are the same', deliveryId);
    texts.set(deliveryId, reply);
  }
  const first = [...new Set(callbacks.flatMap(({ messages }) => messages))];
  if (ordered && first.join() !== accepted.filter((id) => first.includes(id)).join())
    add('answers in order', first.join(' '));
}

function checkTools(record: readonly Recorded[], add: Add): void {
  const journaled = new Map<string, number>();
  for (const { what, call, epoch } of record)
    if (what === 'journaled' && call !== undefined && !journaled.has(call)) journaled.set(call, epoch ?? 0);
  const runs = record.filter(({ what }) => what === 'ran');
  for (const { call = '', tool, epoch = 0 } of runs) {
    const before = journaled.get(call);
    // A later lease than the one that journaled the result had it in its journal.
    if (before !== undefined && epoch > before) add('a journaled tool never runs again', `${tool} ${call}`);
  }
  const once = runs.filter(({ tool }) => tool === 'count_once');
  // By the call; and by what it was for: a forgotten call would be made again under another id.
  for (const name of ['call', 'tag'] as const) {
    const values = once.flatMap((entry) => entry[name] ?? []);
    for (const value of new Set(values.filter((one, n) => values.indexOf(one) !== n)))
      add('a tool that is not idempotent runs once', `count_once ${name} ${value}`);
  }
}

function checkCommits(record: readonly Recorded[], add: Add): void {
  const merged = record.filter(({ what, merged: done }) => what === 'committed' && done === true);
  const runs = merged.map(({ run }) => run);
  for (const run of new Set(runs.filter((id, n) => runs.indexOf(id) !== n)))
    add('a run merges once', `${run}`);
  for (const { run, epoch = 0 } of merged) {
    // A run that is claimed again was not merged until then: who had it before must not merge it.
    const newer = record.find(
      ({ what, run: other, epoch: its = 0 }) => what === 'claimed' && other === run && its > epoch,
    );
    if (newer) add('no stale merge', `${run}: merged with epoch ${epoch}, claimed with ${newer.epoch}`);
  }
}
