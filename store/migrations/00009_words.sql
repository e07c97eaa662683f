-- +goose Up

-- The state of a container that does not exist any more is called destroyed,
-- as its event is, and the health of one whose main process has ended exited.
-- SQLite changes no CHECK: the table is made again, and its indexes with it.
{{if .SQLite}}
CREATE TABLE containers_new (
    id         TEXT PRIMARY KEY CHECK (id <> ''),
    workload   TEXT    NOT NULL CHECK (workload <> ''),
    revision   TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('creating', 'idle', 'claimed', 'destroying', 'destroyed')),
    health     TEXT    NOT NULL CHECK (health IN ('', 'healthy', 'unhealthy', 'exited')),
    tenant     TEXT    NOT NULL,
    claim      TEXT    NOT NULL CHECK (claim = '' OR state NOT IN ('idle', 'destroyed')),
    endpoint   TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    snapshot   TEXT    NOT NULL,
    created_at BIGINT  NOT NULL,
    changed_at BIGINT  NOT NULL,
    owner      TEXT    NOT NULL DEFAULT '',
    wiped_at   BIGINT  NOT NULL DEFAULT 0,
    fence      BIGINT  NOT NULL DEFAULT 1,
    protocol   INTEGER NOT NULL DEFAULT 0,
    -- A claimed container has a claim and a tenant.
    CHECK (state <> 'claimed' OR (claim <> '' AND tenant <> ''))
);
INSERT INTO containers_new (id, workload, revision, state, health, tenant, claim, endpoint, reason, snapshot,
    created_at, changed_at, owner, wiped_at, fence, protocol)
SELECT id, workload, revision, CASE state WHEN 'gone' THEN 'destroyed' ELSE state END,
    CASE health WHEN 'dead' THEN 'exited' ELSE health END, tenant, claim, endpoint, reason, snapshot,
    created_at, changed_at, owner, wiped_at, fence, protocol
FROM containers;
DROP TABLE containers;
ALTER TABLE containers_new RENAME TO containers;
-- A claim holds at most one container.
CREATE UNIQUE INDEX containers_claim ON containers (claim) WHERE claim <> '';
{{else}}
ALTER TABLE containers DROP CONSTRAINT containers_state_check;
ALTER TABLE containers DROP CONSTRAINT containers_health_check;
ALTER TABLE containers DROP CONSTRAINT containers_check;
UPDATE containers SET state = 'destroyed' WHERE state = 'gone';
UPDATE containers SET health = 'exited' WHERE health = 'dead';
ALTER TABLE containers ADD CONSTRAINT containers_state_check CHECK (state IN ('creating', 'idle', 'claimed', 'destroying', 'destroyed'));
ALTER TABLE containers ADD CONSTRAINT containers_health_check CHECK (health IN ('', 'healthy', 'unhealthy', 'exited'));
ALTER TABLE containers ADD CONSTRAINT containers_check CHECK (claim = '' OR state NOT IN ('idle', 'destroyed'));
DROP INDEX containers_live;
{{end}}
-- Counting and listing what exists never reads what is destroyed.
CREATE INDEX containers_live ON containers (workload, state, revision, tenant, health, protocol) WHERE state <> 'destroyed';
{{if .SQLite}}
-- Reserving: a tenant's own and the never claimed ones, then any.
CREATE INDEX containers_idle ON containers (workload, tenant, revision, changed_at) WHERE state = 'idle';
CREATE INDEX containers_used ON containers (workload, revision, changed_at) WHERE state = 'idle' AND tenant <> '';
{{end}}
