-- +goose Up

-- What a claim has of its request. Times are nanoseconds, 0 for none.
ALTER TABLE claims ADD COLUMN labels TEXT NOT NULL DEFAULT '';     -- JSON
ALTER TABLE claims ADD COLUMN parameters TEXT NOT NULL DEFAULT ''; -- JSON, without the values of secret ones
ALTER TABLE claims ADD COLUMN sealed TEXT NOT NULL DEFAULT '';     -- JSON, the encrypted values of secret ones
ALTER TABLE claims ADD COLUMN expires_at BIGINT NOT NULL DEFAULT 0;

CREATE INDEX claims_expiring ON claims (expires_at) WHERE state = 'active' AND expires_at > 0;

-- The labels again, for filters.
CREATE TABLE claim_labels (
    claim {{.Key}} NOT NULL REFERENCES claims (id) ON DELETE CASCADE,
    name  {{.Key}} NOT NULL CHECK (name <> ''),
    value {{.Key}} NOT NULL,
    PRIMARY KEY (claim, name)
);
CREATE INDEX claim_labels_value ON claim_labels (name, value, claim);
