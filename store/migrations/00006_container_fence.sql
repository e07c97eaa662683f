-- +goose Up

-- A container's fence grows whenever another flow, or another server, becomes
-- responsible for it. The container refuses changes with an older one.
ALTER TABLE containers ADD COLUMN fence BIGINT NOT NULL DEFAULT 1;
