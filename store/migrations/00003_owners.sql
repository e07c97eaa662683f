-- +goose Up

-- The server (replicas.id) that changed a record last: while a flow is under
-- way, the one to finish it. Empty when that server has not registered.
ALTER TABLE containers ADD COLUMN owner {{.Key}} NOT NULL DEFAULT '';
ALTER TABLE claims     ADD COLUMN owner {{.Key}} NOT NULL DEFAULT '';
ALTER TABLE runs       ADD COLUMN owner {{.Key}} NOT NULL DEFAULT '';
