-- +goose Up

-- The values that a run captured from a response, as JSON; empty if none.
ALTER TABLE runs ADD COLUMN captured TEXT NOT NULL DEFAULT '';
