package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// Measures are what the metrics of an installation show of its records, at one
// moment.
type Measures struct {
	Workloads int // all, also those without an entry in Pools
	Pools     []PoolMeasures
	LastSeq   int64 // the number of the newest event
	// Overdue are the oldest running hooks that started before a given time. They have
	// what identifies their hook only.
	Overdue []hooks.Run
}

// PoolMeasures are those of a pool and of its claims.
type PoolMeasures struct {
	Workload         string
	MinIdle, MaxSize int
	Fill             pool.FillStatus // its State and Failures only
	Deleting         bool
	Containers       map[pool.State]int // that exist
	Outdated         int                // of an older revision or protocol version, idle or claimed
	Unhealthy        int
	Claims           map[claim.State]int // that are live
	Waiting          int                 // pending claims without a container
	Kept             int                 // claims whose release has failed, also while it is retried
	OldestWaiting    time.Time           // when it was requested; zero without one
	OldestKept       time.Time           // when its release first failed for its reason
}

// MeasureQuery is what Measure is asked for.
type MeasureQuery struct {
	Protocol      int       // of the containers that this server creates
	Workloads     int       // how many at most, by id
	OverdueBefore time.Time // of a hook's start
	Overdue       int       // how many at most
}

// These queries read no history: what has ended is in none of their indexes.
const (
	measureWorkloads = `SELECT w.id, w.revision, w.min_idle, w.max_size, w.draining, w.deleting, COALESCE(p.revision, ''), COALESCE(p.failures, 0)
		FROM workloads w LEFT JOIN pools p ON p.workload = w.id ORDER BY w.id LIMIT $1`
	countWorkloads    = `SELECT count(*) FROM workloads`
	measureContainers = `SELECT workload, state, revision, protocol, health, count(*) FROM containers
		WHERE state <> 'destroyed' GROUP BY workload, state, revision, protocol, health`
	waitsForContainer = `state = 'pending' AND container = ''`
	releaseHasFailed  = `state IN ('releasing', 'release_failed') AND failures > 0`
	measureClaims     = `SELECT workload, state, count(*),
		count(CASE WHEN ` + waitsForContainer + ` THEN 1 END), COALESCE(min(CASE WHEN ` + waitsForContainer + ` THEN created_at END), 0),
		count(CASE WHEN ` + releaseHasFailed + ` THEN 1 END), COALESCE(min(CASE WHEN ` + releaseHasFailed + ` AND failed_at > 0 THEN failed_at END), 0)
		FROM claims WHERE ` + liveCondition + ` GROUP BY workload, state`
	overdueRuns = `SELECT id, point, hook, place, workload, container, started_at FROM runs
		WHERE ` + runningCondition + ` AND started_at < $1 ORDER BY started_at LIMIT $2`
)

// Measure reads the measures in one transaction.
func (db *DB) Measure(ctx context.Context, q MeasureQuery) (Measures, error) {
	var m Measures
	err := db.readTx(ctx, func(tx *sql.Tx) error {
		r := measuring{ctx: ctx, tx: tx, pools: map[string]*PoolMeasures{}, current: map[string]workloadMeasure{}}
		if err := r.workloads(q); err != nil {
			return err
		}
		if err := r.containers(q.Protocol); err != nil {
			return err
		}
		if err := r.claims(); err != nil {
			return err
		}
		m.Pools = r.list()
		n, err := scanNumber(tx.QueryRowContext(ctx, countWorkloads))
		if err != nil {
			return err
		}
		m.Workloads = int(n)
		if m.LastSeq, err = scanNumber(tx.QueryRowContext(ctx, selectLast)); err != nil {
			return err
		}
		m.Overdue, err = readAll(ctx, tx, overdueRuns, []any{toNanos(q.OverdueBefore), q.Overdue}, func(r row) (run hooks.Run, err error) {
			err = r.Scan(&run.ID, &run.Point, &run.Hook, &run.Index, &run.Workload, &run.Container, (*nanos)(&run.StartedAt))
			return run, err
		})
		return err
	})
	if err != nil {
		return Measures{}, fmt.Errorf("measure the records: %w", err)
	}
	return m, nil
}

// measuring is a call of Measure.
type measuring struct {
	ctx     context.Context //nolint:containedctx // it ends with the call
	tx      *sql.Tx
	order   []*PoolMeasures
	pools   map[string]*PoolMeasures // by workload
	current map[string]workloadMeasure
}

// workloadMeasure is what the fill state of a pool follows from.
type workloadMeasure struct {
	pool     PoolMeasures
	revision string
	draining bool
	breaker  pool.Breaker
}

func readAll[T any](ctx context.Context, tx *sql.Tx, query string, args []any, scan func(row) (T, error)) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collectRows(rows, scan)
}

func (r *measuring) workloads(q MeasureQuery) error {
	all, err := readAll(r.ctx, r.tx, measureWorkloads, []any{q.Workloads}, func(r row) (w workloadMeasure, err error) {
		p := &w.pool
		err = r.Scan(&p.Workload, &w.revision, &p.MinIdle, &p.MaxSize, (*flag)(&w.draining), (*flag)(&p.Deleting), &w.breaker.Revision, &w.breaker.Failures)
		return w, err
	})
	for _, w := range all {
		w.pool.Containers, w.pool.Claims = map[pool.State]int{}, map[claim.State]int{}
		r.current[w.pool.Workload], r.pools[w.pool.Workload] = w, &w.pool
		r.order = append(r.order, &w.pool)
	}
	return err
}

func (r *measuring) containers(protocol int) error {
	type group struct {
		workload, revision string
		state              pool.State
		protocol, n        int
		health             pool.Health
	}
	all, err := readAll(r.ctx, r.tx, measureContainers, nil, func(r row) (g group, err error) {
		err = r.Scan(&g.workload, &g.state, &g.revision, &g.protocol, &g.health, &g.n)
		return g, err
	})
	for _, g := range all {
		p := r.pools[g.workload]
		if p == nil {
			continue
		}
		p.Containers[g.state] += g.n
		if g.health != "" && g.health != pool.Healthy {
			p.Unhealthy += g.n
		}
		if (g.state == pool.Idle || g.state == pool.Claimed) && (g.revision != r.current[g.workload].revision || g.protocol < protocol) {
			p.Outdated += g.n
		}
	}
	return err
}

func (r *measuring) claims() error {
	type group struct {
		workload                  string
		state                     claim.State
		n, waiting, kept          int
		oldestWaiting, oldestKept int64
	}
	all, err := readAll(r.ctx, r.tx, measureClaims, nil, func(r row) (g group, err error) {
		err = r.Scan(&g.workload, &g.state, &g.n, &g.waiting, &g.oldestWaiting, &g.kept, &g.oldestKept)
		return g, err
	})
	for _, g := range all {
		p := r.pools[g.workload]
		if p == nil {
			continue
		}
		p.Claims[g.state] = g.n
		p.Waiting += g.waiting
		p.Kept += g.kept
		p.OldestWaiting = earlier(p.OldestWaiting, g.oldestWaiting)
		p.OldestKept = earlier(p.OldestKept, g.oldestKept)
	}
	return err
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(t time.Time, n int64) time.Time {
	if n == 0 || !t.IsZero() && toNanos(t) <= n {
		return t
	}
	return fromNanos(n)
}

// list returns the pools with their fill states.
func (r *measuring) list() []PoolMeasures {
	list := make([]PoolMeasures, 0, len(r.order))
	for _, p := range r.order {
		w := r.current[p.Workload]
		fill := w.breaker.Fill(w.revision, p.Containers[pool.Creating], w.draining)
		p.Fill = pool.FillStatus{State: fill.State, Failures: fill.Failures}
		list = append(list, *p)
	}
	return list
}
