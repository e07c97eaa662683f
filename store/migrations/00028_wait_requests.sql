-- +goose Up

-- The requests that joined an open wait of their name, which a request with another id
-- had begun: repeated, also after its end, they return that wait. A row ends with its
-- wait. Its time is that of the database's clock.
CREATE TABLE wait_requests (
    claim      {{.Key}} NOT NULL CHECK (claim <> ''),
    request    {{.Key}} NOT NULL CHECK (request <> ''),
    wait       {{.Key}} NOT NULL REFERENCES waits (id) ON DELETE CASCADE,
    digest     TEXT     NOT NULL, -- of what is requested
    created_at BIGINT   NOT NULL,
    PRIMARY KEY (claim, request)
);
CREATE INDEX wait_requests_wait ON wait_requests (wait);
CREATE INDEX wait_requests_time ON wait_requests (claim, created_at);

-- The waits that have ended, in the order of their ends.
CREATE INDEX waits_ended ON waits (claim, ended_at) WHERE ended_at > 0;
