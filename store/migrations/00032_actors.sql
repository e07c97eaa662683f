-- +goose Up

-- Who caused an event: empty for those of older servers.
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN request_id TEXT NOT NULL DEFAULT '';

-- The end of a command has the actor of its start.
ALTER TABLE open_execs ADD COLUMN actor TEXT NOT NULL DEFAULT '';
