-- +goose Up

-- The latest changes of memory that programs in containers have requested, with their
-- results. A request that is sent again, because its answer was lost, changes nothing.
CREATE TABLE memory_requests (
    claim   {{.Key}} NOT NULL CHECK (claim <> ''),
    request {{.Key}} NOT NULL CHECK (request <> ''),
    time    BIGINT   NOT NULL,
    result  TEXT     NOT NULL, -- JSON
    PRIMARY KEY (claim, request)
);
CREATE INDEX memory_requests_time ON memory_requests (claim, time);
