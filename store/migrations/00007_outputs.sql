-- +goose Up

-- Whether a run keeps so much output that only the newest of a tenant do.
ALTER TABLE runs ADD COLUMN large INTEGER NOT NULL DEFAULT 0 CHECK (large IN (0, 1));
UPDATE runs SET large = 1 WHERE length(stdout) + length(stderr) > 4096;
CREATE INDEX runs_large ON runs (workload, tenant, id, attempt) WHERE large = 1;
