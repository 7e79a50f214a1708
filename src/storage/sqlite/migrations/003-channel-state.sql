-- What channel accounts have to know again after a restart: logins, cursors, tokens. Bodies are JSON as the channel
-- defines it. Kept until they are deleted.
CREATE TABLE channel_state (
  account TEXT NOT NULL,
  key     TEXT NOT NULL,
  body    TEXT NOT NULL,
  PRIMARY KEY (account, key)
) STRICT, WITHOUT ROWID;
