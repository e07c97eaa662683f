-- +goose Up

-- What a hook may use of the values that were captured: those of its claim, and
-- those of its container outside claims, however many claims that has had.
CREATE INDEX runs_captured ON runs (container, claim, id) WHERE captured <> '';
