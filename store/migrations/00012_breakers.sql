-- +goose Up

-- The recent failures to create containers of a pool: they survive a restart,
-- and every server shows them. A pool without failures has no row.
CREATE TABLE pools (
    workload      {{.Key}} PRIMARY KEY CHECK (workload <> ''),
    revision      {{.Key}} NOT NULL,
    failures      {{.Int}} NOT NULL CHECK (failures > 0),
    last_error    TEXT     NOT NULL,
    last_error_at BIGINT   NOT NULL,
    retry_at      BIGINT   NOT NULL,
    crash_looping {{.Int}} NOT NULL CHECK (crash_looping IN (0, 1))
);
