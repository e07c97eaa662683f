package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/wait"
)

var _ wait.Store = (*DB)(nil)

var waitColumns = columns[wait.Wait]{
	{name: "id", use: key, field: func(w *wait.Wait) any { return &w.ID }},
	{name: "claim", use: immutable, field: func(w *wait.Wait) any { return &w.Claim }},
	{name: "workload", use: immutable, field: func(w *wait.Wait) any { return &w.Workload }},
	{name: "container", use: immutable, field: func(w *wait.Wait) any { return &w.Container }},
	{name: "tenant", use: immutable, field: func(w *wait.Wait) any { return &w.Tenant }},
	{name: "request", use: immutable, field: func(w *wait.Wait) any { return &w.Request }},
	{name: "name", use: immutable, field: func(w *wait.Wait) any { return &w.Name }},
	{name: "type", use: immutable, field: func(w *wait.Wait) any { return &w.Type }},
	{name: "state", field: func(w *wait.Wait) any { return (*string)(&w.State) }},
	{name: "round", field: func(w *wait.Wait) any { return &w.Round }},
	{name: "timeout", use: immutable, field: func(w *wait.Wait) any { return &w.TimeoutMS }},
	{name: "on_timeout", use: immutable, field: func(w *wait.Wait) any { return (*string)(&w.OnTimeout) }},
	{name: "context", use: immutable, field: func(w *wait.Wait) any { return (*rawObject)(&w.Context) }},
	{name: "data", field: func(w *wait.Wait) any { return (*rawObject)(&w.Data) }},
	{name: "decision", field: func(w *wait.Wait) any { return (*string)(&w.Decision) }},
	{name: "reason", field: func(w *wait.Wait) any { return (*text)(&w.Reason) }},
	{name: "extended", field: func(w *wait.Wait) any { return (*flag)(&w.Extended) }},
	{name: "retried", field: func(w *wait.Wait) any { return (*flag)(&w.Retried) }},
	{name: "points", use: immutable, field: func(w *wait.Wait) any { return (*pointList)(&w.Points) }},
	{name: "owner", field: func(w *wait.Wait) any { return &w.Owner }},
	{name: "created_at", use: immutable, field: func(w *wait.Wait) any { return (*nanos)(&w.CreatedAt) }},
	{name: "started_at", field: func(w *wait.Wait) any { return nullNanos{&w.StartedAt} }},
	{name: "deadline", field: func(w *wait.Wait) any { return nullNanos{&w.Deadline} }},
	{name: "fired_at", field: func(w *wait.Wait) any { return nullNanos{&w.FiredAt} }},
	{name: "ended_at", field: func(w *wait.Wait) any { return nullNanos{&w.EndedAt} }},
}

var (
	selectWaits = `SELECT ` + waitColumns.names(nil) + ` FROM waits`
	selectWait  = selectWaits + ` WHERE id = $1`
	// selectWaitsWithoutContent does not read what tenants write, which is long.
	selectWaitsWithoutContent = `SELECT ` + waitColumns.names(map[string]string{"context": `''`, "data": `''`}) + ` FROM waits`
	insertWait                = waitColumns.insert("waits")
	updateWait                = waitColumns.update("waits")

	openWaitNamed = selectWaits + ` WHERE claim = $1 AND name = $2 AND ` + openWait
	openWaitOf    = selectWaits + ` WHERE claim = $1 AND ` + openWait + ` ORDER BY id LIMIT 1`
)

const (
	// openWait is the condition of the indexes on open waits, word for word.
	openWait = `state IN ('starting', 'waiting', 'signalling', 'timing_out')`
	// hookedWait is the condition for those whose owner runs hooks.
	hookedWait = openWait + ` AND state <> 'waiting'`

	// deleteOldWaits removes the waits that have ended, but for those that ended last:
	// a wait may be open while many others begin and end.
	deleteOldWaits = `DELETE FROM waits WHERE claim = $1 AND ended_at > 0 AND ended_at <
		(SELECT ended_at FROM waits WHERE claim = $1 AND ended_at > 0 ORDER BY ended_at DESC LIMIT 1 OFFSET $2)`
	adoptWait  = `UPDATE waits SET owner = $2 WHERE id = $1 AND ` + openWait
	listOpened = `SELECT id, claim, state, round, owner, deadline FROM waits WHERE ` + openWait

	// saveCounts also records that the tenant is active, where its pool wants to
	// know.
	saveCounts = `UPDATE claims SET waits = $2, signals = $3,
		touched_at = CASE WHEN touched_at > 0 AND touched_at < $4 THEN $4 ELSE touched_at END WHERE id = $1`
)

// pointList stores names of points with commas between them.
type pointList []hooks.Point

// Scan implements sql.Scanner.
func (p *pointList) Scan(v any) error {
	s, err := str(v)
	*p = nil
	for name := range strings.SplitSeq(s, ",") {
		if name != "" {
			*p = append(*p, hooks.Point(name))
		}
	}
	return err
}

// Value implements driver.Valuer.
func (p *pointList) Value() (driver.Value, error) {
	var names []string
	for _, point := range *p {
		names = append(names, string(point))
	}
	return strings.Join(names, ","), nil
}

// StartWait adds a wait.
func (db *DB) StartWait(ctx context.Context, w wait.Wait) (out wait.Wait, created bool, err error) {
	err = db.update(ctx, func(t *tx) (err error) {
		out, created, err = db.startWait(t, w)
		return err
	})
	if err != nil {
		return wait.Wait{}, false, fmt.Errorf("start a wait of claim %s: %w", w.Claim, err)
	}
	return out, created, nil
}

func (db *DB) startWait(t *tx, w wait.Wait) (_ wait.Wait, created bool, err error) {
	c, err := scanClaim(t.query(selectClaim+forUpdate, w.Claim))
	if err != nil {
		return w, false, err
	}
	if w.Request != "" {
		known, err := waitOfEarlier(t, w)
		if !errors.Is(err, wait.ErrNotFound) {
			return known, false, err
		}
	}
	if w.Refused != nil {
		return w, false, w.Refused
	}
	if c.State != claim.Active {
		return w, false, fmt.Errorf("%w: it is %s", claim.ErrNotActive, c.State)
	}
	now, err := db.leaseTime(t)
	if err != nil {
		return w, false, err
	}
	open, err := scanWait(t.query(openWaitNamed, w.Claim, w.Name))
	if err == nil {
		err = joinWait(t, w, open, now)
	}
	if !errors.Is(err, wait.ErrNotFound) {
		return open, false, err
	}
	if err := checkWaitLimits(t, c, now); err != nil {
		return w, false, err
	}
	w.Workload, w.Container, w.Tenant, w.Owner = c.Workload, c.Container, c.Tenant, t.owner
	w.State, w.Round, w.CreatedAt = wait.Starting, 1, now
	events := []activity.Event{w.Requested()}
	c.Waits++
	if !w.HasStartHooks() {
		events = append(events, w.Begin(now)...)
	}
	signalled, err := takeSignal(t, &c, &w, now)
	if err != nil {
		return w, false, err
	}
	if err := execLater(t, insertWait, &w); err != nil {
		return w, false, err
	}
	if err := t.execLater(deleteOldWaits, w.Claim, wait.MaxEnded); err != nil {
		return w, false, err
	}
	return w, true, saveWaitEnd(t, c, w, append(events, signalled...))
}

// checkWaitLimits returns an error if the claim must not begin another wait.
func checkWaitLimits(t *tx, c claim.Claim, now time.Time) error {
	if c.Waits >= wait.MaxOpen {
		return fmt.Errorf("%w: %d waits of the claim are open", wait.ErrTooMany, c.Waits)
	}
	return checkWaitRate(t, c.ID, now)
}

// saveWaitEnd records the counts of a claim after a change of one of its waits, and
// the events.
func saveWaitEnd(t *tx, c claim.Claim, w wait.Wait, events []activity.Event) error {
	if !w.State.IsOpen() {
		c.Waits--
	}
	if err := t.execLater(saveCounts, c.ID, c.Waits, c.KeptSignals, toNanos(t.now)); err != nil {
		return err
	}
	return t.addEvents(events...)
}

// UpdateWait changes a wait.
func (db *DB) UpdateWait(ctx context.Context, m wait.Transition) (w wait.Wait, err error) {
	err = db.update(ctx, func(t *tx) (err error) {
		w, err = db.changeWait(t, m)
		return err
	})
	if err != nil {
		return wait.Wait{}, fmt.Errorf("update wait %s: %w", m.ID, err)
	}
	return w, nil
}

func (db *DB) changeWait(t *tx, m wait.Transition) (wait.Wait, error) {
	c, err := scanClaim(t.query(selectClaim+forUpdate, m.Claim))
	if err != nil {
		return wait.Wait{}, err
	}
	w, err := scanWait(t.query(selectWait, m.ID))
	if err != nil {
		return w, err
	}
	if w.State != m.From || w.Round != m.Round || w.Claim != c.ID {
		return w, fmt.Errorf("%w: it is %s", wait.ErrConflict, w.State)
	}
	now, err := db.leaseTime(t)
	if err != nil {
		return w, err
	}
	events := m.Apply(&w, now)
	signalled, err := takeSignal(t, &c, &w, now)
	if err != nil {
		return w, err
	}
	return w, saveWait(t, c, w, append(events, signalled...))
}

// saveWait writes the mutable columns of an existing wait.
func saveWait(t *tx, c claim.Claim, w wait.Wait, events []activity.Event) error {
	w.Owner = t.owner
	if err := execLater(t, updateWait, &w); err != nil {
		return err
	}
	return saveWaitEnd(t, c, w, events)
}

// endWaits cancels the open waits of a claim that is not active any more, and
// removes its signals. It changes the counts of the record.
func endWaits(t *tx, c *claim.Claim) error {
	for ; c.Waits > 0; c.Waits-- {
		w, err := scanWait(t.query(openWaitOf, c.ID))
		if err != nil {
			return err
		}
		// Leases are not concerned: the server's clock will do.
		events := w.Cancel("the claim is "+string(c.State), t.now)
		w.Owner = t.owner
		if err := execLater(t, updateWait, &w); err != nil {
			return err
		}
		if err := t.addEvents(events...); err != nil {
			return err
		}
	}
	if c.KeptSignals == 0 {
		return nil
	}
	c.KeptSignals = 0
	return t.execLater(deleteSignals, c.ID)
}

// permitWaitRun returns an error unless a hook of a wait may start: its claim is
// active, and its container is not being destroyed. A flow of the container that
// begins later finds the run.
func permitWaitRun(t *tx, r hooks.Run) error {
	var err error
	if r.Kind.Rule().InContainer {
		_, err = permitCommand(t, r)
	} else {
		var state, container string
		err = t.query(stateOfClaim, r.Claim).Scan(&state, &container)
		err = permitState(err, state, string(claim.Active), "")
	}
	if errors.Is(err, delivery.ErrClaimEnded) || errors.Is(err, delivery.ErrClaimPending) {
		return fmt.Errorf("%w: its claim or container has ended", pool.ErrConflict)
	}
	return err
}

// AdoptWait makes this server the owner of an open wait.
func (db *DB) AdoptWait(ctx context.Context, id string) error {
	err := db.update(ctx, func(t *tx) error { return t.execLater(adoptWait, id, t.owner) })
	if err != nil {
		return fmt.Errorf("adopt wait %s: %w", id, err)
	}
	return nil
}

// Wait returns a wait, and the time until its deadline.
func (db *DB) Wait(ctx context.Context, id string) (wait.Wait, time.Duration, error) {
	w, err := queryRow(ctx, db, scanWait, selectWait, sanitizeText(id))
	if err != nil {
		return w, 0, readError(err, wait.ErrNotFound, "read wait", id)
	}
	if w.Deadline == nil {
		return w, 0, nil
	}
	now, err := db.currentLeaseTime(ctx)
	return w, w.Deadline.Sub(now), err
}

// Waits lists the matching waits.
func (db *DB) Waits(ctx context.Context, f wait.Filter) ([]wait.Wait, error) {
	query, args := waitQuery(f)
	return queryAll(ctx, db, "waits", query, args, scanWait)
}

func waitQuery(f wait.Filter) (query string, args []any) {
	var w where
	w.equal("workload", f.Workload)
	w.equal("claim", f.Claim)
	w.equal("tenant", f.Tenant)
	w.scope(f.Scope, "claim")
	if len(f.States) > 0 {
		oneOf(&w, "state", f.States)
	}
	if !slices.ContainsFunc(f.States, func(s wait.State) bool { return !s.IsOpen() }) && len(f.States) > 0 {
		w.add(openWait)
	}
	w.idPart(f.IDPart)
	w.beyond(f.After, f.Newest)
	from := selectWaits
	if f.NoContent {
		from = selectWaitsWithoutContent
	}
	query = from + w.String() + ordered(byID, f.Newest) + w.limit(f.Limit)
	return query, w.args
}

// OpenWaits lists the open waits.
func (db *DB) OpenWaits(ctx context.Context) ([]wait.Open, error) {
	now, err := db.currentLeaseTime(ctx)
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, db, "open waits", listOpened, nil, func(r row) (o wait.Open, err error) {
		var state, owner string
		var deadline int64
		err = r.Scan(&o.ID, &o.Claim, &state, &o.Round, &owner, &deadline)
		o.State, o.IsOwn, o.TimeLeft = wait.State(state), owner == db.Self(), fromNanos(deadline).Sub(now)
		return o, err
	})
}

func scanWait(r row) (wait.Wait, error) {
	w, err := waitColumns.scan(r)
	if errors.Is(err, sql.ErrNoRows) {
		return w, wait.ErrNotFound
	}
	return w, translateError(err)
}
