-- +goose Up

-- The state of a container that does not exist any more is called destroyed,
-- as its event is, and the health of one whose main process has ended exited.
ALTER TABLE containers DROP CONSTRAINT containers_state_check;
ALTER TABLE containers DROP CONSTRAINT containers_health_check;
ALTER TABLE containers DROP CONSTRAINT containers_check;
UPDATE containers SET state = 'destroyed' WHERE state = 'gone';
UPDATE containers SET health = 'exited' WHERE health = 'dead';
ALTER TABLE containers ADD CONSTRAINT containers_state_check CHECK (state IN ('creating', 'idle', 'claimed', 'destroying', 'destroyed'));
ALTER TABLE containers ADD CONSTRAINT containers_health_check CHECK (health IN ('', 'healthy', 'unhealthy', 'exited'));
ALTER TABLE containers ADD CONSTRAINT containers_check CHECK (claim = '' OR state NOT IN ('idle', 'destroyed'));
DROP INDEX containers_live;
CREATE INDEX containers_live ON containers (workload, state, revision, tenant, health, protocol) WHERE state <> 'destroyed';
