-- Messages whose run failed, until they are asked again or the dedupe window is over.
CREATE TABLE failed (
  seq          INTEGER PRIMARY KEY,                 -- in the order in which they failed
  conversation INTEGER NOT NULL,
  id           TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  run          TEXT    NOT NULL,
  error        TEXT    NOT NULL,
  body         TEXT    NOT NULL,                    -- as it was in the inbox
  UNIQUE (conversation, id)
) STRICT;
