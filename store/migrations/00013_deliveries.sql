-- +goose Up

-- An event that a delivery caused has depth 1. It is not delivered itself.
ALTER TABLE events ADD COLUMN depth {{.Int}} NOT NULL DEFAULT 0;

-- The event that an event hook ran for. Runs of points have none.
ALTER TABLE runs ADD COLUMN event TEXT   NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN seq   BIGINT NOT NULL DEFAULT 0;

-- The names of the workload's event hooks, each with the number of the last
-- event before its file was applied.
ALTER TABLE workloads ADD COLUMN event_hooks TEXT NOT NULL DEFAULT '{}';

-- A delivery is one event hook for one event. Those with the same workload, hook
-- and lane are attempted one after another, in the order of their events.
CREATE TABLE deliveries (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    hook       {{.Key}} NOT NULL CHECK (hook <> ''),
    lane       {{.Key}} NOT NULL CHECK (lane <> ''),
    seq        BIGINT   NOT NULL CHECK (seq > 0),
    event      TEXT     NOT NULL,
    container  {{.Key}} NOT NULL,
    claim      {{.Key}} NOT NULL,
    tenant     {{.Key}} NOT NULL,
    replay     {{.Int}} NOT NULL CHECK (replay IN (0, 1)),
    priority   {{.Int}} NOT NULL,
    state      TEXT     NOT NULL CHECK (state IN ('queued', 'scheduled', 'running', 'succeeded', 'failed', 'discarded')),
    attempts   {{.Int}} NOT NULL CHECK (attempts >= 0),
    failures   {{.Int}} NOT NULL CHECK (failures >= 0),
    due_at     BIGINT   NOT NULL,
    reason     TEXT     NOT NULL,
    owner      {{.Key}} NOT NULL,
    created_at BIGINT   NOT NULL,
    ended_at   BIGINT   NOT NULL,
    CHECK ((state IN ('queued', 'scheduled', 'running')) = (ended_at = 0)),
    CHECK (state <> 'running' OR attempts > 0)
);
-- The next delivery of a lane is found without reading those behind it or those
-- that have ended.
CREATE INDEX deliveries_lane ON deliveries (workload, hook, lane, seq, id) WHERE state IN ('queued', 'scheduled', 'running');
-- An event has one delivery for each hook.
CREATE UNIQUE INDEX deliveries_event ON deliveries (workload, hook, seq) WHERE replay = 0;
