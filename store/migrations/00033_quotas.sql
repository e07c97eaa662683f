-- +goose Up

-- Who claimed, and whose quota the claim counts for: empty without a credential.
ALTER TABLE claims ADD COLUMN actor TEXT NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN quota_key {{.Key}} NOT NULL DEFAULT '';

-- Counting the live claims of a tenant and of a key, and the claims of the last
-- minute. The expressions keep SQLite from using the latter for the former.
CREATE INDEX claims_live_tenant ON claims (tenant)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed');
CREATE INDEX claims_live_workload ON claims (workload)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed');
CREATE INDEX claims_live_key ON claims (quota_key)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed') AND quota_key <> '';
CREATE INDEX claims_tenant_created ON claims ((tenant || ''), created_at);
CREATE INDEX claims_key_created ON claims ((quota_key || ''), created_at);
CREATE INDEX claims_workload_created ON claims ((workload || ''), created_at);

-- The limits that win over a server's defaults, as JSON, and a number that each
-- change of them increases.
CREATE TABLE quotas (
    level      TEXT     NOT NULL CHECK (level IN ('tenant', 'key', 'workload')),
    name       {{.Key}} NOT NULL CHECK (name <> ''),
    limits     TEXT     NOT NULL,
    updated_at BIGINT   NOT NULL,
    PRIMARY KEY (level, name)
);
CREATE TABLE quota_version (
    id      {{.Int}} PRIMARY KEY CHECK (id = 1),
    version BIGINT   NOT NULL
);
INSERT INTO quota_version (id, version) VALUES (1, 0);

-- What the current snapshot of a tenant occupies, as of its last transfer.
CREATE TABLE state_sizes (
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    tenant     {{.Key}} NOT NULL CHECK (tenant <> ''),
    quota_key  {{.Key}} NOT NULL,
    bytes      BIGINT   NOT NULL CHECK (bytes >= 0),
    updated_at BIGINT   NOT NULL,
    PRIMARY KEY (workload, tenant)
);
CREATE INDEX state_sizes_tenant ON state_sizes (tenant);
CREATE INDEX state_sizes_key ON state_sizes (quota_key) WHERE quota_key <> '';
