-- +goose Up

-- The servers that use the database. Each may write as long as its row has the
-- epoch that it was given: who takes over from one that is silent raises it.
CREATE TABLE replicas (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    host       TEXT     NOT NULL,
    epoch      BIGINT   NOT NULL CHECK (epoch > 0),
    started_at BIGINT   NOT NULL,
    expires_at BIGINT   NOT NULL
);

-- Who does what one of them is enough for. Epochs only grow.
CREATE TABLE leases (
    name       {{.Key}} PRIMARY KEY CHECK (name <> ''),
    holder     TEXT     NOT NULL,
    epoch      BIGINT   NOT NULL,
    expires_at BIGINT   NOT NULL
);
