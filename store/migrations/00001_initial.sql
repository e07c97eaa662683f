-- +goose Up

-- Ids are TEXT, times BIGINT nanoseconds since 1970 (0: never), objects JSON
-- in TEXT. What may never be is forbidden here, whatever the program does.

CREATE TABLE meta (
    key   {{.Key}} PRIMARY KEY,
    value TEXT     NOT NULL
);

-- The log's one row. A transaction takes the numbers of its events from it
-- last of all: whoever holds the row commits next, so numbers grow in the
-- order of commits. Events up to pruned have been removed by retention. Every
-- change changes the row: PostgreSQL leaves room for its next versions.
CREATE TABLE log (
    id     {{.Int}} PRIMARY KEY CHECK (id = 1),
    last   BIGINT   NOT NULL,
    pruned BIGINT   NOT NULL CHECK (pruned <= last)
){{if not .SQLite}} WITH (fillfactor = 10){{end}};
INSERT INTO log (id, last, pruned) VALUES (1, 0, 0);

CREATE TABLE events (
    seq       {{.Int}} PRIMARY KEY,
    time      BIGINT   NOT NULL,
    type      TEXT     NOT NULL CHECK (type <> ''),
    workload  {{.Key}} NOT NULL,
    container {{.Key}} NOT NULL,
    tenant    {{.Key}} NOT NULL,
    claim     {{.Key}} NOT NULL,
    run       TEXT     NOT NULL,
    point     TEXT     NOT NULL,
    message   TEXT     NOT NULL,
    data      TEXT     NOT NULL
);
CREATE INDEX events_container ON events (container, seq) WHERE container <> '';
CREATE INDEX events_tenant    ON events (tenant, seq)    WHERE tenant <> '';
CREATE INDEX events_claim     ON events (claim, seq)     WHERE claim <> '';

CREATE TABLE workloads (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    revision   {{.Key}} NOT NULL,
    source     {{.Blob}} NOT NULL,
    dir        TEXT     NOT NULL,
    min_idle   {{.Int}} NOT NULL CHECK (min_idle >= 0),
    max_size   {{.Int}} NOT NULL CHECK (max_size >= 0),
    draining   {{.Int}} NOT NULL CHECK (draining IN (0, 1)),
    deleting   {{.Int}} NOT NULL CHECK (deleting IN (0, 1)),
    created_at BIGINT   NOT NULL,
    updated_at BIGINT   NOT NULL
);

-- The sources of revisions that containers may still be of.
CREATE TABLE revisions (
    workload   {{.Key}} NOT NULL,
    revision   {{.Key}} NOT NULL,
    source     {{.Blob}} NOT NULL,
    dir        TEXT     NOT NULL,
    updated_at BIGINT   NOT NULL,
    PRIMARY KEY (workload, revision)
);

CREATE TABLE containers (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    revision   {{.Key}} NOT NULL,
    state      TEXT     NOT NULL CHECK (state IN ('creating', 'idle', 'claimed', 'destroying', 'gone')),
    health     TEXT     NOT NULL CHECK (health IN ('', 'healthy', 'unhealthy', 'dead')),
    tenant     {{.Key}} NOT NULL,
    claim      {{.Key}} NOT NULL CHECK (claim = '' OR state NOT IN ('idle', 'gone')),
    endpoint   TEXT     NOT NULL,
    reason     TEXT     NOT NULL,
    snapshot   TEXT     NOT NULL,
    created_at BIGINT   NOT NULL,
    changed_at BIGINT   NOT NULL,
    -- Whoever is claimed is claimed by somebody.
    CHECK (state <> 'claimed' OR (claim <> '' AND tenant <> ''))
);
-- A claim holds at most one container.
CREATE UNIQUE INDEX containers_claim ON containers (claim) WHERE claim <> '';
-- Counting and listing what exists never reads what is gone.
CREATE INDEX containers_live ON containers (workload, state, revision, tenant, health) WHERE state <> 'gone';
-- Reserving: a tenant's own and the never claimed ones, then any.
CREATE INDEX containers_idle ON containers (workload, tenant, revision, changed_at) WHERE state = 'idle';
CREATE INDEX containers_used ON containers (workload, revision, changed_at) WHERE state = 'idle' AND tenant <> '';

CREATE TABLE claims (
    id          {{.Key}} PRIMARY KEY CHECK (id <> ''),
    workload    {{.Key}} NOT NULL CHECK (workload <> ''),
    tenant      {{.Key}} NOT NULL CHECK (tenant <> ''),
    container   {{.Key}} NOT NULL,
    revision    {{.Key}} NOT NULL,
    state       TEXT     NOT NULL CHECK (state IN ('pending', 'active', 'releasing', 'release_failed', 'released', 'failed')),
    source      TEXT     NOT NULL CHECK (source IN ('', 'fresh', 'affinity', 'recycled')),
    endpoint    TEXT     NOT NULL,
    hooks       TEXT     NOT NULL,
    timings     TEXT     NOT NULL,
    warnings    TEXT     NOT NULL,
    reason      TEXT     NOT NULL,
    snapshot    TEXT     NOT NULL,
    -- Grows with a tenant's claims, also when the clock does not.
    fence       BIGINT   NOT NULL,
    failures    INTEGER  NOT NULL,
    retry_at    BIGINT   NOT NULL,
    synced_at   BIGINT   NOT NULL,
    discard     {{.Int}} NOT NULL CHECK (discard IN (0, 1)),
    created_at  BIGINT   NOT NULL,
    active_at   BIGINT   NOT NULL,
    touched_at  BIGINT   NOT NULL,
    released_at BIGINT   NOT NULL,
    CHECK (state NOT IN ('active', 'releasing', 'release_failed') OR container <> '')
);
-- A tenant has at most one live claim on a workload.
CREATE UNIQUE INDEX claims_live ON claims (workload, tenant)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed');
-- A container has at most one live claim.
CREATE UNIQUE INDEX claims_container ON claims (container)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed') AND container <> '';
CREATE INDEX claims_tenant ON claims (tenant, id);

CREATE TABLE runs (
    id         {{.Key}} NOT NULL CHECK (id <> ''),
    attempt    {{.Int}} NOT NULL CHECK (attempt >= 1),
    point      TEXT     NOT NULL,
    hook       TEXT     NOT NULL,
    place      {{.Int}} NOT NULL,
    action     TEXT     NOT NULL,
    command    TEXT     NOT NULL,
    workload   {{.Key}} NOT NULL,
    container  {{.Key}} NOT NULL,
    claim      {{.Key}} NOT NULL,
    tenant     {{.Key}} NOT NULL,
    state      TEXT     NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'timed_out', 'start_failed', 'lost', 'cancelled', 'unknown', 'skipped')),
    exit_code  {{.Int}},
    signal     TEXT     NOT NULL,
    timed_out  {{.Int}} NOT NULL CHECK (timed_out IN (0, 1)),
    killed     {{.Int}} NOT NULL CHECK (killed IN (0, 1)),
    leaked     {{.Int}} NOT NULL,
    stdout     TEXT     NOT NULL,
    stderr     TEXT     NOT NULL,
    error      TEXT     NOT NULL,
    started_at BIGINT   NOT NULL,
    ended_at   BIGINT   NOT NULL,
    duration   {{if .SQLite}}REAL{{else}}DOUBLE PRECISION{{end}} NOT NULL,
    PRIMARY KEY (id, attempt),
    CHECK ((state = 'running') = (ended_at = 0))
);
CREATE INDEX runs_running   ON runs (id, attempt)   WHERE state = 'running';
CREATE INDEX runs_claim     ON runs (claim, id)     WHERE claim <> '';
CREATE INDEX runs_container ON runs (container, id) WHERE container <> '';
