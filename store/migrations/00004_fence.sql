-- +goose Up

-- A claim's fence is greater than those of all earlier claims of its tenant,
-- however many there were.
CREATE INDEX claims_fence ON claims (workload, tenant, fence);
