package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

var _ hooks.Recorder = (*DB)(nil)

var runColumns = columns[hooks.Run]{
	{name: "id", use: key, field: func(r *hooks.Run) any { return &r.ID }},
	{name: "attempt", use: key, field: func(r *hooks.Run) any { return &r.Attempt }},
	{name: "point", use: immutable, field: func(r *hooks.Run) any { return (*string)(&r.Point) }},
	{name: "event", use: immutable, field: func(r *hooks.Run) any { return &r.Event }},
	{name: "seq", use: immutable, field: func(r *hooks.Run) any { return &r.Seq }},
	{name: "wait", use: immutable, field: func(r *hooks.Run) any { return &r.Wait }},
	{name: "hook", use: immutable, field: func(r *hooks.Run) any { return &r.Hook }},
	{name: "place", use: immutable, field: func(r *hooks.Run) any { return &r.Index }},
	{name: "kind", use: immutable, field: func(r *hooks.Run) any { return (*string)(&r.Kind) }},
	{name: "command", use: immutable, field: func(r *hooks.Run) any { return object[[]string]{&r.Command} }},
	{name: "workload", use: immutable, field: func(r *hooks.Run) any { return &r.Workload }},
	{name: "container", use: immutable, field: func(r *hooks.Run) any { return &r.Container }},
	{name: "claim", use: immutable, field: func(r *hooks.Run) any { return &r.Claim }},
	{name: "tenant", use: immutable, field: func(r *hooks.Run) any { return &r.Tenant }},
	{name: "state", field: func(r *hooks.Run) any { return (*string)(&r.State) }},
	{name: "detail", field: func(r *hooks.Run) any { return object[hooks.Detail]{&r.Detail} }},
	{name: "stdout", field: func(r *hooks.Run) any { return object[runtime.Output]{&r.Stdout} }},
	{name: "stderr", field: func(r *hooks.Run) any { return object[runtime.Output]{&r.Stderr} }},
	{name: "error", field: func(r *hooks.Run) any { return (*text)(&r.Error) }},
	{name: "file", use: immutable, field: func(r *hooks.Run) any { return &r.File }},
	{name: "captured", field: func(r *hooks.Run) any { return (*pairs)(&r.Values) }},
	{name: "started_at", use: immutable, field: func(r *hooks.Run) any { return (*nanos)(&r.StartedAt) }},
	{name: "ended_at", field: func(r *hooks.Run) any { return nullNanos{&r.EndedAt} }},
	{name: "duration", field: func(r *hooks.Run) any { return &r.Duration }},
}

// The owner of a run is the server that started it.
var (
	selectRuns              = `SELECT ` + runColumns.names(nil) + ` FROM runs`
	selectRunsWithoutOutput = `SELECT ` + runColumns.names(map[string]string{"stdout": `'{}'`, "stderr": `'{}'`}) + ` FROM runs`
	insertRun               = runColumns.insert("runs", "owner")
	updateRun               = runColumns.update("runs", "large")
	// endRun changes nothing when the run has already ended.
	endRun = updateRun.text + ` AND ` + runningCondition
	// The first running attempt of a claim, or of a container.
	runningOfClaim     = selectRuns + ` WHERE claim = $1 AND claim <> '' AND ` + runningCondition + inContainerCondition + orderRuns + ` LIMIT 1`
	runningInContainer = selectRuns + ` WHERE container = $1 AND container <> '' AND ` + runningCondition + inContainerCondition + orderRuns + ` LIMIT 1`
)

const (
	// runningCondition is the condition of the index on running attempts, word
	// for word.
	runningCondition = `state = 'running'`
	// capturedCondition is the condition of the index on runs that captured values,
	// word for word.
	capturedCondition = `captured <> ''`
	// inContainerCondition leaves out requests of event hooks: their claim or
	// container may have ended long before.
	inContainerCondition = ` AND (event = '' OR kind IN ('command', 'script'))`
	orderRuns            = ` ORDER BY id, attempt`
	// A claim or container cannot end while a run is added to it, nor the
	// reverse.
	claimEnded     = `SELECT NOT (` + liveCondition + `) FROM claims WHERE id = $1` + forShare
	containerEnded = `SELECT state = 'destroyed' FROM containers WHERE id = $1` + forShare
	hasRun         = `SELECT count(*) FROM runs WHERE id = $1 AND attempt = $2`
)

// RunStarted adds a record in state Running, with hook.started.
func (db *DB) RunStarted(ctx context.Context, r hooks.Run) error {
	err := db.writer.update(ctx, func(t *tx) error {
		if err := checkNotEnded(t, r); err != nil {
			return err
		}
		return addRunning(t, r)
	})
	if err != nil {
		return fmt.Errorf("record the start of run %s attempt %d: %w", r.ID, r.Attempt, err)
	}
	return nil
}

// RunSkipped adds a record that never started, with hook.skipped.
func (db *DB) RunSkipped(ctx context.Context, r hooks.Run) error {
	r.State = hooks.Skipped
	err := db.writer.update(ctx, func(t *tx) error {
		if r.EndedAt == nil {
			r.EndedAt = &t.now
		}
		return addRun(t, r)
	})
	if err != nil {
		return fmt.Errorf("record that run %s was skipped: %w", r.ID, err)
	}
	return nil
}

// RunRefused adds the record of a hook of a gate that has refused, with hook.failed. It
// has ended: no flow waits for it, and none ends it.
func (db *DB) RunRefused(ctx context.Context, r hooks.Run) error {
	if r.State == hooks.Running || r.EndedAt == nil {
		return fmt.Errorf("record the refusal %s: it has not ended", r.ID)
	}
	if err := db.writer.update(ctx, func(t *tx) error { return addRun(t, r) }); err != nil {
		return fmt.Errorf("record the refusal %s: %w", r.ID, err)
	}
	return nil
}

// RunEnded ends a record, with hook.completed or hook.failed. A record that has
// already ended stays unchanged; a run that was never started is
// ErrRunNotFound.
func (db *DB) RunEnded(ctx context.Context, r hooks.Run) error {
	err := db.writer.update(ctx, func(t *tx) error { return closeRun(t, r) })
	if err != nil {
		return fmt.Errorf("record the end of run %s attempt %d: %w", r.ID, r.Attempt, err)
	}
	return nil
}

// RunFollowed is RunEnded and RunStarted in one transaction. It locks the claim, or
// the container, before the run, as the end of those does.
func (db *DB) RunFollowed(ctx context.Context, ended, started hooks.Run) error {
	err := db.writer.update(ctx, func(t *tx) error {
		if err := checkNotEnded(t, started); err != nil {
			return err
		}
		if err := closeRun(t, ended); err != nil {
			return err
		}
		return addRunning(t, started)
	})
	if err != nil {
		return fmt.Errorf("record the end of run %s and the start of run %s: %w", ended.ID, started.ID, err)
	}
	return nil
}

// addRunning adds the record of an attempt that starts.
func addRunning(t *tx, r hooks.Run) error {
	r.State, r.EndedAt = hooks.Running, nil
	return addRun(t, r)
}

// closeRun ends the record of an attempt in its final state.
func closeRun(t *tx, r hooks.Run) error {
	if r.State == hooks.Running || r.State == hooks.Skipped {
		return fmt.Errorf("%s is not an end state", r.State)
	}
	if r.EndedAt == nil {
		r.EndedAt = &t.now
	}
	return finishRun(t, r)
}

// checkNotEnded returns an error when the claim or container of the run has
// ended, because then no flow would end the run. One without a record cannot
// have ended.
func checkNotEnded(t *tx, r hooks.Run) error {
	if r.Point.Rule().OfWait {
		return permitWaitRun(t, r)
	}
	query, id := claimEnded, r.Claim
	if id == "" {
		query, id = containerEnded, r.Container
	}
	var ended bool
	err := t.query(query, id).Scan(&ended)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil && ended {
		return fmt.Errorf("%w: its claim or container has ended", pool.ErrConflict)
	}
	return translateError(err)
}

// endRuns ends the attempts that the query finds, one at a time, as unknown:
// their claim or container ends in this transaction.
func endRuns(t *tx, query, id, reason string) error {
	for {
		r, err := runColumns.scan(t.query(query, id))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translateError(err)
		}
		r.State, r.Error, r.EndedAt = hooks.Unknown, reason, &t.now
		r.Duration = float64(t.now.Sub(r.StartedAt).Microseconds()) / 1000
		if err := finishRun(t, r); err != nil {
			return err
		}
	}
}

func addRun(t *tx, r hooks.Run) error {
	stored := r
	if stored.Command == nil {
		stored.Command = []string{} // a list for every reader
	}
	if err := execLater(t, insertRun, &stored, t.owner); err != nil {
		return err
	}
	return t.addEvents(runEvent(r))
}

func finishRun(t *tx, r hooks.Run) error {
	_, _, large, err := outputColumns(r)
	if err != nil {
		return err
	}
	args, err := updateRun.args(&r, boolToInt(large))
	if err != nil {
		return err
	}
	n, err := t.exec(endRun, args...)
	if err != nil {
		return err
	}
	if n == 1 && large {
		if err := truncateOutputs(t, r.Workload, r.Tenant); err != nil {
			return err
		}
	}
	if n == 1 {
		return t.addEvents(endEvents(r)...)
	}
	var known int
	if err := t.query(hasRun, r.ID, r.Attempt).Scan(&known); err != nil {
		return translateError(err)
	}
	if known == 0 {
		return ErrRunNotFound
	}
	return nil
}

// Runs lists the matching attempts, in order of id and attempt.
func (db *DB) Runs(ctx context.Context, f hooks.RunFilter) ([]hooks.Run, error) {
	query, args := runQuery(f)
	return queryAll(ctx, db, "hook runs", query, args, runColumns.scan)
}

func runQuery(f hooks.RunFilter) (string, []any) {
	var w where
	w.equal("claim", f.Claim)
	w.equal("container", f.Container)
	w.equal("workload", f.Workload)
	w.equal("tenant", f.Tenant)
	w.equal("point", string(f.Point))
	w.equal("wait", f.Wait)
	w.scope(f.Scope, "claim")
	if len(f.States) > 0 {
		oneOf(&w, "state", f.States)
	}
	if slices.Equal(f.States, []hooks.RunState{hooks.Running}) {
		w.add(runningCondition)
	}
	if f.NoClaim {
		w.add(`claim = ''`)
	}
	if f.Captured {
		w.add(capturedCondition)
	}
	if !f.Since.IsZero() {
		w.add("started_at >= " + w.arg(toNanos(f.Since)))
	}
	w.idPart(f.IDPart)
	w.beyond(f.After, f.Newest)
	from := selectRuns
	if f.NoOutput {
		from = selectRunsWithoutOutput
	}
	query := from + w.String() + ordered(orderRuns, f.Newest) + w.limit(f.Limit)
	return query, w.args
}

// Run returns every attempt of one id in order, or none when there is no such
// run.
func (db *DB) Run(ctx context.Context, id string) ([]hooks.Run, error) {
	return queryAll(ctx, db, "hook runs", selectRuns+` WHERE id = $1`+orderRuns, []any{sanitizeText(id)}, runColumns.scan)
}
