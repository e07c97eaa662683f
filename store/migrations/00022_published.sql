-- +goose Up

-- Events that tenants' programs published are untrusted and have a priority.
ALTER TABLE events ADD COLUMN untrusted {{.Int}} NOT NULL DEFAULT 0 CHECK (untrusted IN (0, 1));
ALTER TABLE events ADD COLUMN priority {{.Int}} CHECK ((priority IS NOT NULL) = (untrusted = 1));
-- Retention finds them, of a claim and of all.
CREATE INDEX events_published ON events (claim, seq) WHERE untrusted = 1;
CREATE INDEX events_untrusted ON events (seq) WHERE untrusted = 1;

-- What the tenant's program reported to do.
ALTER TABLE claims ADD COLUMN activity      TEXT   NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN activity_tool TEXT   NOT NULL DEFAULT '';
ALTER TABLE claims ADD COLUMN activity_at   BIGINT NOT NULL DEFAULT 0;

-- How much of the limits a claim or a tenant has used: the times at which all of
-- the burst is available again. A row that is missing has used nothing.
CREATE TABLE allowances (
    kind    {{.Key}} NOT NULL CHECK (kind IN ('claim', 'tenant')),
    id      {{.Key}} NOT NULL CHECK (id <> ''),
    events  BIGINT   NOT NULL,
    bytes   BIGINT   NOT NULL,
    dropped BIGINT   NOT NULL CHECK (dropped >= 0),
    PRIMARY KEY (kind, id)
);
