-- +goose Up

-- Commands of tenants whose start is in the log and whose end is not.
CREATE TABLE open_execs (
    claim      {{.Key}} NOT NULL CHECK (claim <> ''),
    id         {{.Key}} NOT NULL CHECK (id <> ''),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    container  {{.Key}} NOT NULL CHECK (container <> ''),
    tenant     {{.Key}} NOT NULL,
    fence      BIGINT   NOT NULL,
    program    TEXT     NOT NULL,
    terminal   {{.Int}} NOT NULL CHECK (terminal IN (0, 1)),
    started_at BIGINT   NOT NULL,
    PRIMARY KEY (claim, id)
);

-- Retention finds what a tenant has done with its container, by its kind.
CREATE INDEX events_uses_exec ON events (claim, seq, type) WHERE type IN ('exec.started', 'exec.completed', 'exec.failed');
CREATE INDEX events_uses_file ON events (claim, seq, type) WHERE type IN ('file.read', 'file.written', 'file.removed');
CREATE INDEX events_uses_request ON events (claim, seq, type) WHERE type IN ('request.completed');
