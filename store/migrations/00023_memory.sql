-- +goose Up

-- Whether the workload's file says that its memory is shared between tenants.
ALTER TABLE workloads ADD COLUMN shared_memory {{.Int}} NOT NULL DEFAULT 0 CHECK (shared_memory IN (0, 1));

-- What a claim, a tenant on a workload, or a workload holds. When one has ended,
-- nothing is read or added, and its entries are removed. What comes after it has
-- another id: a workload that is added again begins empty.
CREATE TABLE memory_scopes (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    level      TEXT     NOT NULL CHECK (level IN ('claim', 'tenant', 'workload')),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    tenant     {{.Key}} NOT NULL CHECK ((tenant = '') = (level = 'workload')),
    claim      {{.Key}} NOT NULL CHECK ((claim <> '') = (level = 'claim')),
    keys       BIGINT   NOT NULL CHECK (keys >= 0),
    bytes      BIGINT   NOT NULL CHECK (bytes >= 0),
    version    BIGINT   NOT NULL, -- of the last put
    ended      {{.Int}} NOT NULL CHECK (ended IN (0, 1)),
    ends_at    BIGINT   NOT NULL, -- unless a claim uses it before; 0 for never
    updated_at BIGINT   NOT NULL
);
CREATE UNIQUE INDEX memory_scopes_live ON memory_scopes (workload, tenant, claim) WHERE ended = 0;
CREATE INDEX memory_scopes_ended ON memory_scopes (id) WHERE ended = 1;

CREATE TABLE memory_entries (
    scope      {{.Key}} NOT NULL CHECK (scope <> ''),
    key        {{.Key}} NOT NULL CHECK (key <> ''),
    version    BIGINT   NOT NULL,
    bytes      BIGINT   NOT NULL,
    updated_at BIGINT   NOT NULL,
    value      TEXT     NOT NULL,
    PRIMARY KEY (scope, key)
);
