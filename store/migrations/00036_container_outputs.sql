-- +goose Up

-- Whether the output of a container that failed is kept, or still to be read.
ALTER TABLE containers ADD COLUMN output TEXT NOT NULL DEFAULT '' CHECK (output IN ('', 'wanted', 'kept'));

-- What was being done when what the reason has went wrong: a JSON list, outermost
-- first. Empty for none.
ALTER TABLE containers ADD COLUMN reason_chain TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN reason_chain TEXT NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN last_error_chain TEXT NOT NULL DEFAULT '';

-- The container whose creation failed last.
ALTER TABLE pools ADD COLUMN last_container TEXT NOT NULL DEFAULT '';

-- The last output of a container that failed: of its main process, and of the health
-- check that failed. It ends with the container's record.
CREATE TABLE outputs (
    container {{.Key}} PRIMARY KEY REFERENCES containers (id) ON DELETE CASCADE,
    workload  {{.Key}} NOT NULL,
    tenant    {{.Key}} NOT NULL,
    main      TEXT     NOT NULL, -- JSON
    probe     TEXT     NOT NULL, -- JSON
    kept_at   BIGINT   NOT NULL,
    -- Whether it is so much that only the newest of a tenant stay whole.
    large     {{.Int}} NOT NULL CHECK (large IN (0, 1))
);
CREATE INDEX outputs_large ON outputs (workload, tenant, kept_at, container) WHERE large = 1;
