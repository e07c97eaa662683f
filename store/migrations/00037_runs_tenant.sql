-- +goose Up

-- A tenant lists its runs, also by a part of an id, at the cost of its own.
CREATE INDEX runs_tenant ON runs (tenant, id, attempt);
