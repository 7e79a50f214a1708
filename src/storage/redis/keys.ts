// Where everything lives in Redis: `lk:{s<shard>}:<kind>:<name>`. The braces are a Redis Cluster hash tag, so all keys of
// a conversation share one slot, and one script can change them together.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags

export const SHARDS = 64;

/** Hash tag and prefix of BullMQ's keys: one slot for all queues. */
export const QUEUE_PREFIX = '{lk}';

/** Pub/sub channels. Redis has one set of them for all its databases: from number 1 on their names carry it. */
export interface Channels {
  /** Of RunControl. */
  signals: string;
  /** Of a conversation's run events. */
  events(conversation: string): string;
}

export function channelsOf(database: number): Channels {
  const prefix = database === 0 ? 'lk' : `lk@${database}`;
  return {
    signals: `${prefix}:signals`,
    events: (conversation) => prefix + conversationKeys(conversation).channel.slice('lk'.length),
  };
}

export interface ShardKeys {
  /** Sorted set, score 0: names of conversations with something to run. */
  pending: string;
  /** Sorted set, score 0: names of conversations with something to send. */
  outboxes: string;
  /** Sorted set: names by last activity. */
  activity: string;
  /** Hash: delivery id → parked record. */
  parked: string;
  /** Sorted set: delivery ids by the time they were parked. */
  parkedAt: string;
  /** Hash: `<conversation name>\n<message name>` → record of a failed message. */
  failed: string;
  /** Sorted set: its fields by the time of the failure. */
  failedAt: string;
}

export interface ConversationKeys extends ShardKeys {
  /** The conversation's id as it stands in keys and sets; nameOf() and idOf() translate. */
  name: string;
  /** Hash: lease, counters, summary, usage; of the outbox's head, too. */
  meta: string;
  /** List of entries `<flag><message name>\n<json>`, oldest first; the first `taken` belong to the active run. */
  inbox: string;
  /** List of history entries, append-only. */
  history: string;
  /** List of journal entries of the active or interrupted run. */
  journal: string;
  /** Hash: message name → `<expiry ms> <status>`. */
  seen: string;
  /** List of message names in the order in which they expire. */
  seenOrder: string;
  /** List of entries `<delivery name>\n<json>`, next to be sent first. */
  outbox: string;
  /** Stream of run events. */
  events: string;
  /** Pub/sub channel of run events, in database 0. */
  channel: string;
  /** List of entries `<note name>\n<json>`, oldest first. */
  notes: string;
  /** Hash: what people chose by command. */
  preferences: string;
}

/** FNV-1a over UTF-16 code units: stable across processes and versions, spread enough for 64 shards. */
export function shardOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 16)) & (SHARDS - 1);
}

const prefixOf = (shard: number): string => `lk:{s${shard}}:`;

export function shardKeys(shard: number): ShardKeys {
  const prefix = prefixOf(shard);
  return {
    pending: `${prefix}pending`,
    outboxes: `${prefix}outboxes`,
    activity: `${prefix}activity`,
    parked: `${prefix}parked`,
    parkedAt: `${prefix}parked-at`,
    failed: `${prefix}failed`,
    failedAt: `${prefix}failed-at`,
  };
}

export function conversationKeys(conversation: string): ConversationKeys {
  const shard = shardOf(conversation);
  const prefix = prefixOf(shard);
  const name = nameOf(conversation);
  return {
    ...shardKeys(shard),
    name,
    meta: `${prefix}meta:${name}`,
    inbox: `${prefix}inbox:${name}`,
    history: `${prefix}history:${name}`,
    journal: `${prefix}journal:${name}`,
    seen: `${prefix}seen:${name}`,
    seenOrder: `${prefix}seen-order:${name}`,
    outbox: `${prefix}outbox:${name}`,
    events: `${prefix}events:${name}`,
    channel: `${prefix}channel:${name}`,
    notes: `${prefix}notes:${name}`,
    preferences: `${prefix}preferences:${name}`,
  };
}

/** The message index shards by message, so that it needs no conversation. */
export function indexKey(account: string, messageId: string): string {
  const name = JSON.stringify([account, messageId]);
  return `${prefixOf(shardOf(name))}index:${name}`;
}

/** Tokens of one day and one name. */
export function spendingKey(day: string, who: string): string {
  const name = nameOf(who);
  return `${prefixOf(shardOf(name))}spending:${day}:${name}`;
}

/** What one channel account keeps: a hash of its values, and who acts for it. */
export function channelKeys(account: string): { values: string; lease: string } {
  const prefix = `lk:{c${nameOf(account)}}:`;
  return { values: `${prefix}channel-state`, lease: `${prefix}channel-lease` };
}

/** Strangers' requests and approvals: one slot for all. */
export const PEOPLE = {
  /** Hash: code → json of a request. */
  requests: 'lk:{people}:requests',
  /** Hash: `[account, person]` → code. */
  codes: 'lk:{people}:codes',
  /** Hash: code → json of an approval. */
  approvals: 'lk:{people}:approvals',
  /** Sorted set: codes of requests by time. */
  times: 'lk:{people}:times',
};

// Ids hold any character. Two kinds cannot stand in names: control characters (a newline ends a name in entries and
// signals) and lone surrogates (UTF-8 has none, so different ids would become one key).
const UNSAFE = /[%\p{Cc}\p{Cs}]/gu;
const ESCAPED = /%([0-9a-f]+);/g;

export const nameOf = (id: string): string =>
  id.replace(UNSAFE, (character) => `%${character.charCodeAt(0).toString(16)};`);

export const idOf = (name: string): string =>
  name.replace(ESCAPED, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
