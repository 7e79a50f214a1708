// What is stored, in its versions, for both storages. A record says its version in `v`; one without is of version 1. An older
// one is brought up to date when it is read, step by step. One that a later release wrote is not guessed at: the run is left
// to a process of that release. See docs/decisions/0008-stored-formats.md.
import type { InboundMessage } from '../domain/inbound.ts';
import type { HistoryEntry } from '../domain/messages.ts';
import type { JournalEntry, Snapshot } from '../ports/store.ts';

/** Makes a record of one version one of the next. */
type Step = (record: Record<string, unknown>) => Record<string, unknown>;

export interface Format<T> {
  /** Of a later release: its version, and the record as it is. */
  read(json: string): { record: T; newer?: number };
}

/** `steps[n]` leads from version n to n + 1. */
export function createFormat<T>(version: number, steps: Readonly<Record<number, Step>> = {}): Format<T> {
  return {
    read(json) {
      let record = JSON.parse(json) as Record<string, unknown>;
      const { v = 1 } = record;
      if (v === version) return { record: record as T };
      const from = typeof v === 'number' ? v : Number.POSITIVE_INFINITY;
      if (from > version) return { record: record as T, newer: from };
      for (let n = from; n < version; n += 1) {
        const step = steps[n];
        if (step === undefined) throw new Error(`no step from version ${n} of a stored record`);
        record = { ...step(record), v: n + 1 };
      }
      return { record: record as T };
    },
  };
}

const journal = createFormat<JournalEntry>(1);
const history = createFormat<HistoryEntry>(1);
const inbox = createFormat<InboundMessage>(1);

interface Stored {
  context: readonly string[];
  inbox: readonly string[];
  journal: readonly string[];
}

/** What a run works with; or the version that it would take to understand it. */
export function readSnapshot(
  stored: Stored,
): Pick<Snapshot, 'context' | 'inbox' | 'journal'> | { newer: number } {
  let newest = 0;
  const readAll = <T>(format: Format<T>, records: readonly string[]): T[] =>
    records.map((json) => {
      const { record, newer = 0 } = format.read(json);
      newest = Math.max(newest, newer);
      return record;
    });
  const snapshot = {
    context: readAll(history, stored.context),
    inbox: readAll(inbox, stored.inbox),
    journal: readAll(journal, stored.journal),
  };
  return newest > 0 ? { newer: newest } : snapshot;
}

/** For people: of an entry that a later release wrote, what is known of it. */
export const readHistory = (json: string): HistoryEntry => history.read(json).record;

/** Messages that join a run which has begun. Undefined: one of them is a later release's. */
export function readJoining(records: readonly string[]): InboundMessage[] | undefined {
  const read = records.map((json) => inbox.read(json));
  return read.some(({ newer }) => newer !== undefined) ? undefined : read.map(({ record }) => record);
}
