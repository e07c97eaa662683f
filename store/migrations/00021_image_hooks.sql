-- +goose Up

-- The hooks of the image, as listed before the first tenant: what was changed since
-- is not run.
ALTER TABLE containers ADD COLUMN image_hooks TEXT NOT NULL DEFAULT 'null';
