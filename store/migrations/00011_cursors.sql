-- +goose Up

-- How far each follower of the log that must handle every event once has come.
-- Retention keeps the events that a cursor has not passed.
CREATE TABLE cursors (
    name {{.Key}} PRIMARY KEY CHECK (name <> ''),
    seq  BIGINT   NOT NULL CHECK (seq >= 0)
);
