-- +goose Up

-- A digest of the environment that a live claim has given its main process. Empty
-- for none. The values are nowhere.
ALTER TABLE claims ADD COLUMN environment TEXT NOT NULL DEFAULT '';
