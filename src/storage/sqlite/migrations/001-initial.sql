-- The embedded store's tables. Bodies are JSON as the ports define it; times are milliseconds since the epoch
-- unless they say otherwise.

-- One row a conversation: who it is, which run has it, and how far things have come.
CREATE TABLE conversations (
  key           INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: old rows of a purged one can wait for their removal
  id            TEXT    NOT NULL UNIQUE,
  active_at     INTEGER NOT NULL,
  generation    INTEGER NOT NULL DEFAULT 0,         -- raised by a reset
  epoch         INTEGER NOT NULL DEFAULT 0,         -- fencing: raised by claim and release
  run           TEXT,                               -- the active or interrupted run; null: none
  run_generation INTEGER NOT NULL DEFAULT 0,        -- the generation that the run started in
  attempt       INTEGER NOT NULL DEFAULT 0,
  cancelled     INTEGER NOT NULL DEFAULT 0,
  taken         INTEGER NOT NULL DEFAULT 0,         -- inbox entries up to this seq belong to the run
  steps         INTEGER NOT NULL DEFAULT 0,         -- entries of the run's journal
  holder        INTEGER NOT NULL DEFAULT 0,         -- the opening of the database that gave the lease; an older one's is dead
  lease_until   INTEGER NOT NULL DEFAULT 0,         -- on the holder's monotonic clock
  length        INTEGER NOT NULL DEFAULT 0,         -- entries of the history
  context_from  INTEGER NOT NULL DEFAULT 0,         -- the model's context starts at this entry
  input_tokens  INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX conversations_by_activity ON conversations (active_at, key);

-- Beside the row above, which every operation rewrites.
CREATE TABLE summaries (
  conversation INTEGER PRIMARY KEY,
  text         TEXT NOT NULL
) STRICT;

-- Every message that was accepted within the dedupe window: its id, and what became of it.
CREATE TABLE messages (
  seq          INTEGER PRIMARY KEY,                 -- order of arrival
  conversation INTEGER NOT NULL,
  id           TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  outcome      TEXT,                                -- 'done' or 'failed'; null: not answered yet
  run          TEXT,
  reply        TEXT,
  UNIQUE (conversation, id)
) STRICT;

-- Messages that are not answered yet. Rows come and go; they never change.
CREATE TABLE inbox (
  conversation INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  body         TEXT    NOT NULL,
  PRIMARY KEY (conversation, seq)
) STRICT, WITHOUT ROWID;

-- Steps of runs that are not committed yet.
CREATE TABLE journal (
  conversation INTEGER NOT NULL,
  step         INTEGER NOT NULL,
  body         TEXT    NOT NULL,
  PRIMARY KEY (conversation, step)
) STRICT, WITHOUT ROWID;

-- Appended to, never rewritten. A reset raises the generation, and the old entries go into `garbage`.
CREATE TABLE history (
  conversation INTEGER NOT NULL,
  generation   INTEGER NOT NULL,
  position     INTEGER NOT NULL,
  body         TEXT    NOT NULL,
  PRIMARY KEY (conversation, generation, position)
) STRICT, WITHOUT ROWID;

-- Histories that nobody can see any more, to be deleted in small steps.
CREATE TABLE garbage (
  conversation INTEGER NOT NULL,
  generation   INTEGER NOT NULL,
  PRIMARY KEY (conversation, generation)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
  seq          INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL,
  id           TEXT    NOT NULL,
  parked       INTEGER NOT NULL DEFAULT 0,
  body         TEXT    NOT NULL,
  attempts     INTEGER NOT NULL DEFAULT 0,
  error        TEXT,
  epoch        INTEGER NOT NULL DEFAULT 0,
  not_before   INTEGER NOT NULL DEFAULT 0,          -- back-off, on the holder's monotonic clock
  holder       INTEGER NOT NULL DEFAULT 0,
  lease_until  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX outbox_queues ON outbox (parked, conversation, seq);
CREATE INDEX outbox_parked ON outbox (id) WHERE parked = 1;

CREATE TABLE message_index (
  seq          INTEGER PRIMARY KEY,
  account      TEXT    NOT NULL,
  id           TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  conversation TEXT    NOT NULL,
  fingerprint  TEXT    NOT NULL,
  UNIQUE (account, id)
) STRICT;

-- One row: how often the database was opened, and a field that checks write to.
CREATE TABLE openings (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  count      INTEGER NOT NULL,
  checked_at INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO openings (one, count) VALUES (1, 0);
