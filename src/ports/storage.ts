// Storage: one backend, all its ports. Made by storage/redis and storage/sqlite; chosen by `storage.url`.
import type { ChannelStates } from './channel-state.ts';
import type { ConversationStore } from './store.ts';
import type { ConversationReader } from './reader.ts';
import type { Outbox } from './outbox.ts';
import type { LaneQueue } from './lanes.ts';
import type { FailedMessages } from './failed.ts';
import type { RunEventLog } from './events.ts';
import type { RunControl } from './control.ts';
import type { MessageIndex } from './message-index.ts';
import type { ContextNotes } from './notes.ts';
import type { People } from './people.ts';
import type { Preferences } from './preferences.ts';
import type { Spending } from './spending.ts';

export interface Storage {
  kind: 'redis' | 'sqlite';
  store: ConversationStore;
  reader: ConversationReader;
  outbox: Outbox;
  failed: FailedMessages;
  index: MessageIndex;
  notes: ContextNotes;
  people: People;
  preferences: Preferences;
  spending: Spending;
  channelState: ChannelStates;
  events: RunEventLog;
  control: RunControl;
  /** Wakes agent runs. */
  lanes: LaneQueue;
  /** Wakes deliveries. */
  deliveries: LaneQueue;
  /** Resolves if reads and writes work now; else rejects with what to do, for readyz and the doctor. */
  check(): Promise<void>;
  /** Closes connections and files; after the lanes were closed. Idempotent. */
  close(): Promise<void>;
}
