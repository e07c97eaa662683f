-- +goose Up

-- The workload files as they were applied. The hooks of a point come from one of
-- them, which its runs name, so that another server can resume the point.
CREATE TABLE files (
    workload   {{.Key}} NOT NULL,
    file       {{.Key}} NOT NULL,
    source     {{.Blob}} NOT NULL,
    updated_at BIGINT   NOT NULL,
    PRIMARY KEY (workload, file)
);
ALTER TABLE runs ADD COLUMN file TEXT NOT NULL DEFAULT '';
