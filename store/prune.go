package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// pruneChunk is the number of rows that one change removes: few enough that no
// claim waits long behind it.
const pruneChunk = 500

// Retention selects what Prune may remove.
type Retention struct {
	// Before is the time before which ended records are removed.
	Before time.Time
	// Events is the maximum number of events to keep, regardless of their age.
	// 0 means no limit. What is still to be delivered is kept, and what a request that
	// may be repeated has published, with what comes after it.
	Events int64
}

// Pruned counts what Prune has removed.
type Pruned struct {
	Events, Containers, Claims, Runs, Deliveries, Waits, Revisions int64
}

// prunable are the kinds of records that end. Records of a live claim, or of a
// container that exists, stay, because a server may have to finish their work
// after a crash. So does what a live claim holds.
var prunable = []struct {
	table string
	ended string // $1 is Retention.Before
	count func(*Pruned) *int64
}{
	{
		"runs", `state <> 'running' AND ended_at < $1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = runs.claim AND claims.` + liveCondition + `)
			AND NOT EXISTS (SELECT 1 FROM containers WHERE containers.id = runs.container AND containers.state <> 'destroyed')`,
		func(p *Pruned) *int64 { return &p.Runs },
	},
	{
		"deliveries", `state IN ('succeeded', 'failed', 'discarded') AND ended_at < $1`,
		func(p *Pruned) *int64 { return &p.Deliveries },
	},
	{
		"waits", `state NOT IN ('starting', 'waiting', 'signalling', 'timing_out') AND ended_at < $1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = waits.claim AND claims.` + liveCondition + `)`,
		func(p *Pruned) *int64 { return &p.Waits },
	},
	{
		"claims", `state IN ('released', 'failed') AND released_at < $1
			AND NOT EXISTS (SELECT 1 FROM containers WHERE containers.claim = claims.id AND containers.claim <> '')`,
		func(p *Pruned) *int64 { return &p.Claims },
	},
	{
		"containers", `state = 'destroyed' AND changed_at < $1
			AND NOT EXISTS (SELECT 1 FROM claims
				WHERE claims.container = containers.id AND claims.container <> '' AND claims.` + liveCondition + `)`,
		func(p *Pruned) *int64 { return &p.Containers },
	},
}

// Prune removes events and ended records as r selects. It may be called again
// at any time, and may be interrupted at any time.
func (db *DB) Prune(ctx context.Context, r Retention) (Pruned, error) {
	var p Pruned
	err := db.pruneEvents(ctx, r, &p)
	for _, e := range prunable {
		if err == nil {
			err = db.pruneEnded(ctx, e.table, e.ended, r.Before, e.count(&p))
		}
	}
	if err == nil {
		err = db.pruneRevisions(ctx, r.Before, &p)
	}
	if err != nil {
		return p, fmt.Errorf("prune: %w", err)
	}
	return p, nil
}

// oldestEvent reads the first event.
const oldestEvent = `SELECT COALESCE(min(time), 0) FROM events WHERE seq = (SELECT min(seq) FROM events)`

// OldestEvent returns when the oldest event was recorded; zero if there is none.
func (db *DB) OldestEvent(ctx context.Context) (time.Time, error) {
	at, err := queryRow(ctx, db, scanNumber, oldestEvent)
	return fromNanos(at), err
}

// errNotPassed undoes a removal because a cursor was added, or a delivery was
// retried, in the meantime.
var errNotPassed = errors.New("the event is still needed")

// lastToPrune returns the last event to remove, of those after pruned.
func (db *DB) lastToPrune(ctx context.Context, r Retention, pruned, last int64) (int64, error) {
	end := last
	var young int64
	err := db.read.QueryRowContext(ctx, `SELECT seq FROM events WHERE seq > $1 AND time >= $2 ORDER BY seq LIMIT 1`,
		pruned, toNanos(r.Before)).Scan(&young)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, translateError(err)
	}
	if err == nil {
		end = young - 1
	}
	if r.Events > 0 {
		end = max(end, last-r.Events)
	}
	var passed, live sql.NullInt64 // by all cursors; the oldest event that is still to be delivered
	if err := db.read.QueryRowContext(ctx, `SELECT min(seq) FROM cursors`).Scan(&passed); err != nil {
		return 0, translateError(err)
	}
	if err := db.read.QueryRowContext(ctx, oldestLive).Scan(&live); err != nil {
		return 0, translateError(err)
	}
	if passed.Valid {
		end = min(end, passed.Int64)
	}
	if live.Valid {
		end = min(end, live.Int64-1)
	}
	var first sql.NullInt64
	since, until := repeatable()
	if err := db.read.QueryRowContext(ctx, firstRepeatable, pruned, end, since, until).Scan(&first); err != nil {
		return 0, translateError(err)
	}
	if first.Valid {
		end = first.Int64 - 1
	}
	return end, nil
}

// pruneEvents removes the oldest events, up to the first that is still needed. It
// only ever removes a prefix of the log, so that one number describes what is
// missing.
func (db *DB) pruneEvents(ctx context.Context, r Retention, p *Pruned) error {
	var last, pruned int64
	err := db.read.QueryRowContext(ctx, `SELECT last, pruned FROM log WHERE id = 1`).Scan(&last, &pruned)
	if err != nil {
		return translateError(err)
	}
	end, err := db.lastToPrune(ctx, r, pruned, last)
	if err != nil {
		return err
	}
	for pruned < end {
		pruned = min(pruned+pruneChunk, end)
		var n int64
		err := db.writer.update(ctx, func(t *tx) (err error) {
			if n, err = t.exec(`DELETE FROM events WHERE seq <= $1`, pruned); err != nil {
				return err
			}
			if _, err = t.exec(`UPDATE log SET pruned = $1 WHERE id = 1 AND pruned < $1`, pruned); err != nil {
				return err
			}
			// A cursor is added by a transaction that holds the log's row, as this one
			// does now: it is either seen here, or begins after what is removed.
			// So is a delivery that has just become live: that locks its event.
			for _, needed := range []string{countBehind, countLiveUpTo} {
				n, err := scanNumber(t.query(needed, pruned))
				if err != nil {
					return translateError(err)
				}
				if n > 0 {
					return errNotPassed
				}
			}
			return nil
		})
		if errors.Is(err, errNotPassed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("remove events up to %d: %w", pruned, err)
		}
		p.Events += n
		db.buffer.discard(pruned)
	}
	return nil
}

// pruneEnded removes ended records. It selects them outside the writer, and the
// writer checks the condition again.
func (db *DB) pruneEnded(ctx context.Context, table, ended string, before time.Time, count *int64) error {
	for {
		rows, err := db.read.QueryContext(ctx,
			`SELECT DISTINCT id FROM `+table+` WHERE `+ended+` LIMIT $2`, toNanos(before), pruneChunk)
		if err != nil {
			return fmt.Errorf("find ended %s: %w", table, translateError(err))
		}
		ids, err := collectRows(rows, func(r row) (id string, err error) {
			err = r.Scan(&id)
			return id, err
		})
		if err != nil {
			return fmt.Errorf("find ended %s: %w", table, translateError(err))
		}
		if len(ids) == 0 {
			return nil
		}
		var n int64
		err = db.writer.update(ctx, func(t *tx) error {
			n = 0
			for _, id := range ids {
				removed, err := t.exec(`DELETE FROM `+table+` WHERE id = $2 AND `+ended, toNanos(before), id)
				if err != nil {
					return err
				}
				n += removed
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("remove ended %s: %w", table, err)
		}
		*count += n
		if len(ids) < pruneChunk || n == 0 {
			return nil
		}
	}
}

// unusedRevision is the condition for a revision that nothing uses.
const unusedRevision = `updated_at < $1
	AND NOT EXISTS (SELECT 1 FROM workloads
		WHERE workloads.id = revisions.workload AND workloads.revision = revisions.revision)
	AND NOT EXISTS (SELECT 1 FROM containers
		WHERE containers.workload = revisions.workload AND containers.revision = revisions.revision
			AND containers.state <> 'destroyed')`

const (
	withUnusedRevisions   = `SELECT DISTINCT workload FROM revisions WHERE ` + unusedRevision
	deleteUnusedRevisions = `DELETE FROM revisions WHERE workload = $2 AND ` + unusedRevision
)

// unusedFiles removes the files that are not current and that no point in
// progress needs.
const unusedFiles = `DELETE FROM files WHERE updated_at < $1
	AND updated_at < (SELECT max(newer.updated_at) FROM files AS newer WHERE newer.workload = files.workload)
	AND NOT EXISTS (SELECT 1 FROM claims
		WHERE claims.workload = files.workload AND claims.state IN ('pending', 'releasing'))
	AND NOT EXISTS (SELECT 1 FROM containers
		WHERE containers.workload = files.workload AND containers.state = 'destroying')`

// pruneRevisions removes the revisions and files that nothing uses any more.
func (db *DB) pruneRevisions(ctx context.Context, before time.Time, p *Pruned) error {
	workloads, err := queryAll(ctx, db, "workloads with unused revisions", withUnusedRevisions, []any{toNanos(before)}, scanText)
	for _, workload := range workloads {
		if err == nil {
			err = db.pruneRevisionsOf(ctx, workload, before, p)
		}
	}
	if err == nil {
		err = db.writer.update(ctx, func(t *tx) error { return t.execLater(unusedFiles, toNanos(before)) })
	}
	if err != nil {
		return fmt.Errorf("remove unused revisions: %w", err)
	}
	return nil
}

func (db *DB) pruneRevisionsOf(ctx context.Context, workload string, before time.Time, p *Pruned) error {
	var n int64
	err := db.writer.update(ctx, func(t *tx) (err error) {
		if err := t.lockWorkload(workload); err != nil { // no container of the revision is added concurrently
			return err
		}
		n, err = t.exec(deleteUnusedRevisions, toNanos(before), workload)
		return err
	})
	if err == nil {
		p.Revisions += n
	}
	return err
}
