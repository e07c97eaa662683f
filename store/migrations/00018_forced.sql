-- +goose Up

-- Whether an operator has forced the destruction of a container, and how far it
-- is. A container that is claimed stays so until its claim is released.
ALTER TABLE containers ADD COLUMN forced TEXT NOT NULL DEFAULT '' CHECK (forced IN ('', 'after_hooks', 'now', 'done'));
CREATE INDEX containers_forced ON containers (id) WHERE forced IN ('after_hooks', 'now');
