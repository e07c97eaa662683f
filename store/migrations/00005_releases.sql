-- +goose Up

-- Why a release fails (tenant, sink or stale; empty while it does not), and
-- since when.
ALTER TABLE claims ADD COLUMN failure_reason {{.Key}} NOT NULL DEFAULT '' CHECK (failure_reason IN ('', 'tenant', 'sink', 'stale'));
ALTER TABLE claims ADD COLUMN failed_at BIGINT NOT NULL DEFAULT 0;

-- When a container was last emptied for a claim.
ALTER TABLE containers ADD COLUMN wiped_at BIGINT NOT NULL DEFAULT 0;

-- Releases that have failed: their containers are counted by themselves.
CREATE INDEX claims_kept ON claims (workload) WHERE state IN ('releasing', 'release_failed') AND failures > 0;
