-- +goose Up

-- The node that a container runs on, since it is idle for the first time.
ALTER TABLE containers ADD COLUMN node TEXT NOT NULL DEFAULT '';
