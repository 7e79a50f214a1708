-- What belongs to people and groups rather than to a conversation's runs. Bodies are JSON as the ports define it; times
-- are milliseconds since the epoch.

-- Said in groups without asking the bot.
CREATE TABLE notes (
  seq  INTEGER PRIMARY KEY,
  chat TEXT    NOT NULL,
  id   TEXT    NOT NULL,
  at   INTEGER NOT NULL,                            -- when it was kept
  body TEXT    NOT NULL,
  UNIQUE (chat, id)
) STRICT;

-- Strangers who asked, and people who were let in.
CREATE TABLE people (
  seq         INTEGER PRIMARY KEY,
  account     TEXT    NOT NULL,
  person      TEXT    NOT NULL,
  code        TEXT    NOT NULL UNIQUE,
  name        TEXT,
  at          INTEGER NOT NULL,
  approved_at INTEGER,
  approved_by TEXT,
  UNIQUE (account, person)
) STRICT;

-- Chosen by command.
CREATE TABLE preferences (
  conversation TEXT PRIMARY KEY,
  body         TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Tokens by day and by whom.
CREATE TABLE spending (
  day    TEXT    NOT NULL,
  who    TEXT    NOT NULL,
  input  INTEGER NOT NULL,
  output INTEGER NOT NULL,
  cached INTEGER NOT NULL,
  PRIMARY KEY (day, who)
) STRICT, WITHOUT ROWID;
