-- How a person is told of an approval: JSON, as the port defines it.
ALTER TABLE people ADD COLUMN tell TEXT;
