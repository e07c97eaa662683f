-- +goose Up

-- The version of the protocol that a container's program speaks: that of the
-- server that made it. Servers of different versions may use the database at
-- once. 0 is a container from before there were versions.
ALTER TABLE containers ADD COLUMN protocol INTEGER NOT NULL DEFAULT 0;
DROP INDEX containers_live;
CREATE INDEX containers_live ON containers (workload, state, revision, tenant, health, protocol) WHERE state <> 'gone';

-- A release may fail because only a server of another version can read the
-- container. SQLite changes no CHECK.
{{if .SQLite}}
ALTER TABLE claims ADD COLUMN failed_by TEXT NOT NULL DEFAULT '' CHECK (failed_by IN ('', 'tenant', 'sink', 'stale', 'version'));
UPDATE claims SET failed_by = failure_reason WHERE failure_reason <> '';
ALTER TABLE claims DROP COLUMN failure_reason;
ALTER TABLE claims RENAME COLUMN failed_by TO failure_reason;
{{else}}
ALTER TABLE claims DROP CONSTRAINT claims_failure_reason_check;
ALTER TABLE claims ADD CONSTRAINT claims_failure_reason_check CHECK (failure_reason IN ('', 'tenant', 'sink', 'stale', 'version'));
{{end}}
