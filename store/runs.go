package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

var _ hooks.Recorder = (*DB)(nil)

const (
	runColumns = `id, attempt, point, hook, place, kind, command, workload, container, claim, tenant,
		state, detail, stdout, stderr, error, started_at, ended_at, duration`
	selectRuns = `SELECT ` + runColumns + ` FROM runs`
	// runColumnsWithoutOutput are the columns without the output of the
	// attempts.
	runColumnsWithoutOutput = `id, attempt, point, hook, place, kind, command, workload, container, claim, tenant,
		state, detail, '{}', '{}', error, started_at, ended_at, duration`
	orderRuns = ` ORDER BY id, attempt`
	insertRun = `INSERT INTO runs (` + runColumns + `, owner)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`
	// endRun changes nothing when the run has already ended.
	endRun = `UPDATE runs
		SET state = $3, detail = $4, stdout = $5, stderr = $6, error = $7, ended_at = $8, duration = $9, large = $10
		WHERE id = $1 AND attempt = $2 AND state = 'running'`
	// A claim or container cannot end while a run is added to it, nor the
	// reverse.
	claimEnded     = `SELECT NOT (` + liveCondition + `) FROM claims WHERE id = $1` + forShare
	containerEnded = `SELECT state = 'destroyed' FROM containers WHERE id = $1` + forShare
	// The first running attempt of a claim, or of a container.
	runningOfClaim     = selectRuns + ` WHERE claim = $1 AND claim <> '' AND ` + runningCondition + orderRuns + ` LIMIT 1`
	runningInContainer = selectRuns + ` WHERE container = $1 AND container <> '' AND ` + runningCondition + orderRuns + ` LIMIT 1`
	hasRun             = `SELECT count(*) FROM runs WHERE id = $1 AND attempt = $2`
)

// RunStarted adds a record in state Running, with hook.started.
func (db *DB) RunStarted(ctx context.Context, r hooks.Run) error {
	r.State, r.EndedAt = hooks.Running, nil
	err := db.writer.update(ctx, func(t *tx) error {
		if err := checkNotEnded(t, r); err != nil {
			return err
		}
		return addRun(t, r)
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

// RunEnded ends a record, with hook.completed or hook.failed. A record that has
// already ended stays unchanged; a run that was never started is
// ErrRunNotFound.
func (db *DB) RunEnded(ctx context.Context, r hooks.Run) error {
	if r.State == hooks.Running || r.State == hooks.Skipped {
		return fmt.Errorf("record the end of run %s attempt %d: %s is not an end state", r.ID, r.Attempt, r.State)
	}
	err := db.writer.update(ctx, func(t *tx) error {
		if r.EndedAt == nil {
			r.EndedAt = &t.now
		}
		return finishRun(t, r)
	})
	if err != nil {
		return fmt.Errorf("record the end of run %s attempt %d: %w", r.ID, r.Attempt, err)
	}
	return nil
}

// checkNotEnded returns an error when the claim or container of the run has
// ended, because then no flow would end the run. One without a record cannot
// have ended.
func checkNotEnded(t *tx, r hooks.Run) error {
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
		r, err := scanRun(t.query(query, id))
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
	texts, err := runTextColumns(r)
	if err != nil {
		return err
	}
	err = t.execLater(insertRun, r.ID, r.Attempt, string(r.Point), r.Hook, r.Index, string(r.Kind), texts.command,
		r.Workload, r.Container, r.Claim, r.Tenant, string(r.State), texts.detail, texts.stdout, texts.stderr, sanitizeText(r.Error),
		toNanos(r.StartedAt), toNullNanos(r.EndedAt), r.Duration, t.owner)
	if err != nil {
		return err
	}
	return t.addEvents(runEvent(r))
}

func finishRun(t *tx, r hooks.Run) error {
	texts, err := runTextColumns(r)
	if err != nil {
		return err
	}
	n, err := t.exec(endRun, r.ID, r.Attempt, string(r.State), texts.detail, texts.stdout, texts.stderr, sanitizeText(r.Error),
		toNullNanos(r.EndedAt), r.Duration, boolToInt(texts.isLarge()))
	if err != nil {
		return err
	}
	if n == 1 && texts.isLarge() {
		if err := truncateOutputs(t, r.Workload, r.Tenant); err != nil {
			return err
		}
	}
	if n == 1 {
		return t.addEvents(runEvent(r))
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

// runTexts are the columns of a run that are JSON.
type runTexts struct{ command, detail, stdout, stderr string }

func runTextColumns(r hooks.Run) (t runTexts, err error) {
	if r.Command == nil {
		r.Command = []string{}
	}
	for _, c := range []struct {
		column *string
		value  any
	}{{&t.command, r.Command}, {&t.detail, r.Detail}, {&t.stdout, r.Stdout}, {&t.stderr, r.Stderr}} {
		if *c.column, err = encode(c.value); err != nil {
			return t, err
		}
	}
	return t, nil
}

// Runs lists the matching attempts, in order of id and attempt.
func (db *DB) Runs(ctx context.Context, f hooks.RunFilter) ([]hooks.Run, error) {
	query, args := runQuery(f)
	return queryAll(ctx, db, "hook runs", query, args, scanRun)
}

func runQuery(f hooks.RunFilter) (string, []any) {
	var w where
	w.equal("claim", f.Claim)
	w.equal("container", f.Container)
	w.equal("workload", f.Workload)
	w.equal("tenant", f.Tenant)
	w.equal("point", string(f.Point))
	if len(f.States) > 0 {
		oneOf(&w, "state", f.States)
	}
	if slices.Equal(f.States, []hooks.RunState{hooks.Running}) {
		w.add(runningCondition)
	}
	if f.After != "" {
		w.add("id > " + w.arg(f.After))
	}
	from := selectRuns
	if f.NoOutput {
		from = `SELECT ` + runColumnsWithoutOutput + ` FROM runs`
	}
	query := from + w.String() + orderRuns + w.limit(f.Limit)
	return query, w.args
}

// Run returns every attempt of one id in order, or none when there is no such
// run.
func (db *DB) Run(ctx context.Context, id string) ([]hooks.Run, error) {
	return queryAll(ctx, db, "hook runs", selectRuns+` WHERE id = $1`+orderRuns, []any{sanitizeText(id)}, scanRun)
}

// runningCondition is the condition of the index on running attempts, word for word.
const runningCondition = `state = 'running'`

// UnfinishedRuns lists the attempts that have started and not ended. Right
// after a server start these are the attempts that an earlier server left.
func (db *DB) UnfinishedRuns(ctx context.Context) ([]hooks.Run, error) {
	return queryAll(ctx, db, "hook runs", selectRuns+` WHERE `+runningCondition+orderRuns, nil, scanRun)
}

func scanRun(row row) (hooks.Run, error) {
	var r hooks.Run
	var t runTexts
	var started, ended int64
	err := row.Scan(&r.ID, &r.Attempt, (*string)(&r.Point), &r.Hook, &r.Index, (*string)(&r.Kind), &t.command,
		&r.Workload, &r.Container, &r.Claim, &r.Tenant, (*string)(&r.State), &t.detail, &t.stdout, &t.stderr, &r.Error,
		&started, &ended, &r.Duration)
	if err != nil {
		return r, err
	}
	r.StartedAt, r.EndedAt = fromNanos(started), fromNullNanos(ended)
	return r, errors.Join(decode(t.command, &r.Command), decode(t.detail, &r.Detail), decode(t.stdout, &r.Stdout), decode(t.stderr, &r.Stderr))
}
