package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

var _ delivery.Store = (*DB)(nil)

var deliveryColumns = columns[delivery.Delivery]{
	{name: "id", use: key, field: func(d *delivery.Delivery) any { return &d.ID }},
	{name: "workload", use: immutable, field: func(d *delivery.Delivery) any { return &d.Workload }},
	{name: "hook", use: immutable, field: func(d *delivery.Delivery) any { return &d.Hook }},
	{name: "lane", use: immutable, field: func(d *delivery.Delivery) any { return &d.Lane }},
	{name: "seq", use: immutable, field: func(d *delivery.Delivery) any { return &d.Seq }},
	{name: "event", use: immutable, field: func(d *delivery.Delivery) any { return (*string)(&d.Event) }},
	{name: "container", use: immutable, field: func(d *delivery.Delivery) any { return &d.Container }},
	{name: "claim", use: immutable, field: func(d *delivery.Delivery) any { return &d.Claim }},
	{name: "tenant", use: immutable, field: func(d *delivery.Delivery) any { return &d.Tenant }},
	{name: "replay", use: immutable, field: func(d *delivery.Delivery) any { return (*flag)(&d.Replay) }},
	{name: "priority", use: immutable, field: func(d *delivery.Delivery) any { return &d.Priority }},
	{name: "state", field: func(d *delivery.Delivery) any { return (*string)(&d.State) }},
	{name: "attempts", field: func(d *delivery.Delivery) any { return &d.Attempts }},
	{name: "failures", field: func(d *delivery.Delivery) any { return &d.Failures }},
	{name: "due_at", field: func(d *delivery.Delivery) any { return nullNanos{&d.DueAt} }},
	{name: "reason", field: func(d *delivery.Delivery) any { return (*text)(&d.Reason) }},
	{name: "created_at", use: immutable, field: func(d *delivery.Delivery) any { return (*nanos)(&d.CreatedAt) }},
	{name: "ended_at", field: func(d *delivery.Delivery) any { return nullNanos{&d.EndedAt} }},
}

// The owner of a running delivery is the server that attempts it.
var (
	selectEvent      = selectEvents + ` WHERE seq = $1`
	selectDeliveries = `SELECT ` + deliveryColumns.names(nil) + ` FROM deliveries`
	selectDelivery   = selectDeliveries + ` WHERE id = $1`
	insertDelivery   = deliveryColumns.insert("deliveries", "owner")
	updateDelivery   = deliveryColumns.update("deliveries", "owner")
	firstDelivery    = selectDeliveries + ` WHERE workload = $1 AND hook = $2 AND lane = $3 AND ` + liveDelivery + ` ORDER BY seq, id LIMIT 1`
)

const (
	// liveDelivery is the condition of the index on live deliveries, word for word.
	liveDelivery = `state IN ('queued', 'scheduled', 'running')`
	// debounced is the condition for a delivery that waits for the end of its
	// debounce.
	debounced    = `workload = $1 AND hook = $2 AND lane = $3 AND ` + liveDelivery + ` AND state = 'scheduled' AND attempts = 0`
	deliveryKeys = `SELECT DISTINCT workload, hook, lane FROM deliveries WHERE ` + liveDelivery
	// replaceDebounced has the later event take the place of the earlier one. It
	// is due after the window, and at the latest when the longest wait ends.
	replaceDebounced = `UPDATE deliveries SET seq = $5, claim = $6, tenant = $7, priority = $10,
		due_at = CASE WHEN created_at + $9 < $8 THEN created_at + $9 ELSE $8 END
		WHERE ` + debounced + ` AND event = $4 AND replay = 0 AND seq < $5`
	// flushDebounced has no later event take their place.
	flushDebounced = `UPDATE deliveries SET state = 'queued', due_at = $4 WHERE ` + debounced
	adoptDelivery  = `UPDATE deliveries SET owner = $2 WHERE id = $1 AND state = 'running'`
	// raiseIdleFence has the container refuse, from the next attempt on, a command
	// that its last server may still send. A flow of a claim raises the fence itself.
	raiseIdleFence = `UPDATE containers SET fence = fence + 1
		WHERE state = 'idle' AND event_commands = 1 AND id = (SELECT container FROM deliveries WHERE id = $1 AND claim = '')`
	// lockEvent locks the event against its removal by retention.
	lockEvent = `SELECT seq FROM events WHERE seq = $1` + forShare

	selectOwner = `SELECT state, owner, seq FROM deliveries WHERE id = $1` + forUpdate
	// commandStarts marks the container for the next flow, which waits for this
	// row and then reads the mark.
	commandStarts = `UPDATE containers SET event_commands = 1 WHERE id = $1 RETURNING CASE forced WHEN '' THEN state ELSE forced END, fence`
	// runningTest is a run of a test of a claim: see hooks.Run.IsTest.
	runningTest        = `SELECT id FROM runs WHERE claim = $1 AND claim <> '' AND ` + runningCondition + ` AND event LIKE 'test.%' LIMIT 1`
	stateOfClaim       = `SELECT state, container FROM claims WHERE id = $1` + forShare
	countLive          = `SELECT state, count(*) FROM deliveries WHERE ` + liveDelivery + ` GROUP BY state`
	countLiveOf        = `SELECT count(*) FROM deliveries WHERE workload = $1 AND ` + liveDelivery
	oldestLive         = `SELECT min(seq) FROM deliveries WHERE ` + liveDelivery
	countLiveUpTo      = `SELECT count(*) FROM deliveries WHERE seq <= $1 AND ` + liveDelivery
	eventTime          = `SELECT COALESCE((SELECT time FROM events WHERE seq = $1), 0)`
	eventsAfterCursor  = `SELECT count(*) FROM events WHERE workload = $1 AND seq > (SELECT seq FROM cursors WHERE name = $2)`
	deliveryCursorName = "deliveries"
)

// FanOut adds the deliveries of the events after the cursor.
func (db *DB) FanOut(ctx context.Context, limit int, match func(context.Context, []activity.Event) ([]delivery.Change, error)) (isActive, more bool, err error) {
	from, err := queryRow(ctx, db, scanNumber, selectCursor, deliveryCursorName)
	if errors.Is(err, sql.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read the cursor of deliveries: %w", err)
	}
	more, err = db.advance(ctx, deliveryCursorName, from, limit, func(ctx context.Context, events []activity.Event) (func(*tx) error, error) {
		changes, err := match(ctx, events)
		return func(t *tx) error { return addDeliveries(t, changes) }, err
	})
	return true, more, err
}

// AddDeliveries makes changes that follow from no new event.
func (db *DB) AddDeliveries(ctx context.Context, changes []delivery.Change, events ...activity.Event) error {
	err := db.writer.update(ctx, func(t *tx) error {
		if err := addDeliveries(t, changes); err != nil {
			return err
		}
		return t.addEvents(events...)
	})
	if err != nil {
		return fmt.Errorf("add deliveries: %w", err)
	}
	return nil
}

func addDeliveries(t *tx, changes []delivery.Change) error {
	for _, c := range changes {
		if err := addDelivery(t, c); err != nil {
			return err
		}
	}
	return nil
}

func addDelivery(t *tx, c delivery.Change) error {
	d := c.Add
	if f := c.Flush; f != (delivery.Key{}) {
		return t.execLater(flushDebounced, f.Workload, f.Hook, f.Lane, toNanos(t.now))
	}
	d.State, d.CreatedAt, d.DueAt = delivery.Queued, t.now, &t.now
	if c.Debounce > 0 {
		due := t.now.Add(c.Debounce)
		d.State, d.DueAt = delivery.Scheduled, &due
		n, err := t.exec(replaceDebounced, d.Workload, d.Hook, d.Lane, string(d.Event),
			d.Seq, d.Claim, d.Tenant, toNanos(due), delivery.MaxWindows*c.Debounce.Nanoseconds(), d.Priority)
		if err != nil || n > 0 {
			return err
		}
	}
	return execLater(t, insertDelivery, &d, t.owner)
}

// UpdateDelivery changes a delivery with its run.
func (db *DB) UpdateDelivery(ctx context.Context, m delivery.Transition) (p delivery.Permission, err error) {
	err = errUngrouped
	if db.groups != nil && isGroupable(m) {
		err = db.groups.update(ctx, m)
	}
	if errors.Is(err, errUngrouped) {
		err = db.writer.update(ctx, func(t *tx) (err error) {
			p, err = changeDelivery(t, m)
			return err
		})
	}
	if err != nil {
		return p, fmt.Errorf("update delivery %s: %w", m.ID, err)
	}
	return p, nil
}

func changeDelivery(t *tx, m delivery.Transition) (p delivery.Permission, err error) {
	if err := lockDelivery(t, m); err != nil {
		return p, err
	}
	if err := saveDelivery(t, m.Delivery); err != nil {
		return p, err
	}
	if m.Run != nil {
		if p, err = updateDeliveryRun(t, *m.Run); err != nil {
			return p, err
		}
	}
	return p, t.addEvents(m.Events...)
}

// saveDelivery writes the mutable columns of a record.
func saveDelivery(t *tx, d delivery.Delivery) error {
	if !d.State.IsLive() && d.EndedAt == nil {
		d.EndedAt = &t.now
	}
	return execLater(t, updateDelivery, &d, t.owner)
}

// lockDelivery locks a delivery and returns an error if it must not change as the
// transition says.
func lockDelivery(t *tx, m delivery.Transition) error {
	var state, owner string
	var seq int64
	err := t.query(selectOwner, m.ID).Scan(&state, &owner, &seq)
	if errors.Is(err, sql.ErrNoRows) {
		return delivery.ErrNotFound
	}
	if err != nil {
		return translateError(err)
	}
	from := delivery.State(state)
	if !slices.Contains(m.From, from) {
		return fmt.Errorf("%w: it is %s", delivery.ErrConflict, from)
	}
	if from == delivery.Running && owner != t.owner {
		return fmt.Errorf("%w: another server attempts it", delivery.ErrConflict)
	}
	if seq != m.Seq {
		return fmt.Errorf("%w: event %d has taken the place of %d", delivery.ErrConflict, seq, m.Seq)
	}
	if from.IsLive() || !m.State.IsLive() {
		return nil
	}
	if _, err := scanNumber(t.query(lockEvent, m.Seq)); errors.Is(err, sql.ErrNoRows) {
		return delivery.ErrEventRemoved
	} else if err != nil {
		return translateError(err)
	}
	return nil
}

// updateDeliveryRun adds the run that starts or is skipped, or ends the one that
// has ended.
func updateDeliveryRun(t *tx, r hooks.Run) (p delivery.Permission, err error) {
	switch r.State {
	case hooks.Running:
		if r.Kind.Rule().InContainer {
			if p.Fence, err = permitCommand(t, r); err != nil {
				return p, err
			}
		}
		return p, addRun(t, r)
	case hooks.Skipped:
		return p, addRun(t, r)
	}
	return p, finishRun(t, r)
}

// permitCommand returns the fence of the container if an event hook may run a
// command in it. The rows stay as they are until the run is recorded: a flow that
// begins later finds it.
func permitCommand(t *tx, r hooks.Run) (fence int64, err error) {
	var state, container string
	wanted, earlier := string(pool.Idle), string(pool.Creating)
	if r.Claim != "" {
		err := t.query(stateOfClaim, r.Claim).Scan(&state, &container)
		if err == nil && container != r.Container {
			err = delivery.ErrClaimEnded
		}
		if err := permitState(err, state, string(claim.Active), string(claim.Pending)); err != nil {
			return 0, err
		}
		wanted, earlier = string(pool.Claimed), ""
	}
	err = t.query(commandStarts, r.Container).Scan(&state, &fence)
	return fence, permitState(err, state, wanted, earlier)
}

// permitState returns an error unless a state was read and is the wanted one.
func permitState(err error, state, wanted, earlier string) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return delivery.ErrClaimEnded
	case err != nil:
		return translateError(err)
	case state == wanted:
		return nil
	case state == earlier:
		return delivery.ErrClaimPending
	}
	return delivery.ErrClaimEnded
}

// StartTest adds the run of a test of a hook.
func (db *DB) StartTest(ctx context.Context, r hooks.Run) (p delivery.Permission, err error) {
	r.State, r.EndedAt = hooks.Running, nil
	err = db.writer.update(ctx, func(t *tx) (err error) {
		if p.Fence, err = permitCommand(t, r); err != nil {
			return err
		}
		if err := checkNoTest(t, r.Claim); err != nil {
			return err
		}
		return addRun(t, r)
	})
	if err != nil {
		return p, fmt.Errorf("record the start of test %s: %w", r.ID, err)
	}
	return p, nil
}

// checkNoTest returns an error while a test of the claim is running. The caller
// has locked the container, as another test would.
func checkNoTest(t *tx, claim string) error {
	var id string
	err := t.query(runningTest, claim).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return translateError(err)
	}
	return fmt.Errorf("%w: run %s", delivery.ErrTestRunning, id)
}

// AdoptDelivery makes this server the owner of a running delivery.
func (db *DB) AdoptDelivery(ctx context.Context, r hooks.Run) (isPermitted bool, err error) {
	err = db.writer.update(ctx, func(t *tx) error {
		isPermitted = true
		n, err := t.exec(adoptDelivery, r.ID, t.owner)
		if err == nil && n == 0 {
			err = delivery.ErrConflict
		}
		if err != nil {
			return err
		}
		if r.Kind.Rule().InContainer {
			_, err = permitCommand(t, r)
			isPermitted = !errors.Is(err, delivery.ErrClaimEnded)
			if err != nil && isPermitted {
				return err
			}
		}
		return t.execLater(raiseIdleFence, r.ID)
	})
	if err != nil {
		return false, fmt.Errorf("adopt delivery %s: %w", r.ID, err)
	}
	return isPermitted, nil
}
