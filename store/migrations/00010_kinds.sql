-- +goose Up

-- A run is of one kind of action, and what its record has because of its kind
-- is one column. The first kind is called command, as in the workload file.
ALTER TABLE runs RENAME COLUMN action TO kind;
UPDATE runs SET kind = 'command' WHERE kind = 'exec';
ALTER TABLE runs ADD COLUMN detail TEXT NOT NULL DEFAULT '{}';
{{if .SQLite}}
UPDATE runs SET detail = json_object('exit_code', exit_code, 'signal', signal,
    'timed_out', json(iif(timed_out, 'true', 'false')), 'killed', json(iif(killed, 'true', 'false')), 'leaked_processes', leaked);
{{else}}
UPDATE runs SET detail = json_build_object('exit_code', exit_code, 'signal', signal,
    'timed_out', timed_out = 1, 'killed', killed = 1, 'leaked_processes', leaked)::text;
{{end}}
ALTER TABLE runs DROP COLUMN exit_code;
ALTER TABLE runs DROP COLUMN signal;
ALTER TABLE runs DROP COLUMN timed_out;
ALTER TABLE runs DROP COLUMN killed;
ALTER TABLE runs DROP COLUMN leaked;
