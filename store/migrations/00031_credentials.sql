-- +goose Up

-- The generation grows with each change of a key or binding, in its
-- transaction: servers compare it with the one that they know. It is 0 until the
-- first credential is added, and never again.
CREATE TABLE credential_generation (
    id    {{.Int}} PRIMARY KEY CHECK (id = 1),
    value BIGINT   NOT NULL CHECK (value >= 0)
);
INSERT INTO credential_generation (id, value) VALUES (1, 0);

-- Keys, without their secrets.
CREATE TABLE credential_keys (
    name         {{.Key}} PRIMARY KEY CHECK (name <> ''),
    hash         {{.Key}} NOT NULL UNIQUE CHECK (length(hash) = 64), -- SHA-256, hexadecimal
    prefix       TEXT     NOT NULL,
    grants       TEXT     NOT NULL, -- JSON
    operator     {{.Int}} NOT NULL CHECK (operator IN (0, 1)),
    created_at   BIGINT   NOT NULL,
    created_by   TEXT     NOT NULL,
    expires_at   BIGINT   NOT NULL,
    revoked_at   BIGINT   NOT NULL,
    last_used_at BIGINT   NOT NULL,
    generation   BIGINT   NOT NULL
);
CREATE INDEX credential_keys_generation ON credential_keys (generation);
CREATE INDEX credential_keys_operator ON credential_keys (name) WHERE operator = 1;
CREATE INDEX credential_keys_revoked ON credential_keys (revoked_at) WHERE revoked_at > 0;
CREATE INDEX credential_keys_expired ON credential_keys (expires_at) WHERE expires_at > 0;

-- What gives grants to the holders of tokens of other issuers, of certificates, and
-- to users of the machine.
CREATE TABLE credential_bindings (
    name     {{.Key}} PRIMARY KEY CHECK (name <> ''),
    binding  TEXT     NOT NULL, -- JSON
    operator {{.Int}} NOT NULL CHECK (operator IN (0, 1))
);
