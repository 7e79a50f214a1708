-- How many messages wait in a conversation, those of the active run included: asked for by every message that comes.
ALTER TABLE conversations ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
UPDATE conversations SET waiting = (SELECT count(*) FROM inbox WHERE conversation = conversations.key);
