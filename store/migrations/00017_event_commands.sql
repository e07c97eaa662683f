-- +goose Up

-- Whether a command of an event hook was ever started in the container. The flows
-- of the others need not look for such commands.
ALTER TABLE containers ADD COLUMN event_commands {{.Int}} NOT NULL DEFAULT 0;
UPDATE containers SET event_commands = 1 WHERE id IN (SELECT container FROM runs WHERE event <> '');
