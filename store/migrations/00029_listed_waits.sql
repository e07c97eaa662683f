-- +goose Up

-- The waits of a tenant, and those of a workload, in pages.
CREATE INDEX waits_tenant ON waits (tenant, id);
CREATE INDEX waits_workload ON waits (workload, id);

-- The memory that ends is looked for each minute.
CREATE INDEX memory_scopes_ends ON memory_scopes (level, ends_at) WHERE ended = 0;
