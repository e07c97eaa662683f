-- +goose Up

-- A wait is a row with a deadline. Its times are those of the database's clock.
CREATE TABLE waits (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    claim      {{.Key}} NOT NULL CHECK (claim <> ''),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    container  {{.Key}} NOT NULL CHECK (container <> ''),
    tenant     {{.Key}} NOT NULL,
    request    {{.Key}} NOT NULL,
    name       {{.Key}} NOT NULL,
    type       TEXT     NOT NULL CHECK (type <> ''),
    state      TEXT     NOT NULL CHECK (state IN ('starting', 'waiting', 'signalling', 'timing_out',
                                                  'signalled', 'timed_out', 'aborted', 'cancelled')),
    round      {{.Int}} NOT NULL CHECK (round BETWEEN 1 AND 3),
    timeout    BIGINT   NOT NULL CHECK (timeout > 0),
    on_timeout TEXT     NOT NULL,
    context    TEXT     NOT NULL,
    data       TEXT     NOT NULL,
    decision   TEXT     NOT NULL,
    reason     TEXT     NOT NULL,
    extended   {{.Int}} NOT NULL CHECK (extended IN (0, 1)),
    retried    {{.Int}} NOT NULL CHECK (retried IN (0, 1)),
    points     TEXT     NOT NULL,
    owner      {{.Key}} NOT NULL,
    created_at BIGINT   NOT NULL,
    started_at BIGINT   NOT NULL,
    deadline   BIGINT   NOT NULL,
    fired_at   BIGINT   NOT NULL,
    ended_at   BIGINT   NOT NULL,
    CHECK ((state IN ('starting', 'waiting', 'signalling', 'timing_out')) = (ended_at = 0)),
    CHECK (state <> 'waiting' OR deadline > 0),
    CHECK (state NOT IN ('signalling', 'signalled') OR data <> '')
);
CREATE INDEX waits_claim ON waits (claim, id);
CREATE INDEX waits_open ON waits (id) WHERE state IN ('starting', 'waiting', 'signalling', 'timing_out');
-- A claim has at most one open wait of a name, and a request makes one wait.
CREATE UNIQUE INDEX waits_name ON waits (claim, name) WHERE state IN ('starting', 'waiting', 'signalling', 'timing_out');
CREATE UNIQUE INDEX waits_request ON waits (claim, request) WHERE request <> '';

-- Signals for which no wait was open. They are given to waits in the order of id.
CREATE TABLE signals (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    claim      {{.Key}} NOT NULL CHECK (claim <> ''),
    name       {{.Key}} NOT NULL,
    data       TEXT     NOT NULL,
    created_at BIGINT   NOT NULL
);
CREATE INDEX signals_name ON signals (claim, name, id);

-- How many waits of the claim are open, and how many signals are kept for it.
ALTER TABLE claims ADD COLUMN waits   {{.Int}} NOT NULL DEFAULT 0 CHECK (waits >= 0);
ALTER TABLE claims ADD COLUMN signals {{.Int}} NOT NULL DEFAULT 0 CHECK (signals >= 0);

-- The wait and the round of a run at a point of one.
ALTER TABLE runs ADD COLUMN wait TEXT NOT NULL DEFAULT '';
