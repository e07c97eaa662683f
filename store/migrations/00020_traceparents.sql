-- +goose Up

-- The traceparent header of the request that a claim's hooks run for: of the
-- claim, then of its release. Another server that resumes them needs it.
ALTER TABLE claims ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
