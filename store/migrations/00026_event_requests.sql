-- +goose Up

-- The request of a program in a container that published the event. A request that
-- is sent again, because its answer was lost, publishes nothing.
ALTER TABLE events ADD COLUMN request TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX events_request ON events (claim, request) WHERE request <> '';
