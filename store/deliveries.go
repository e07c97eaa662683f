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
	replaceDebounced = `UPDATE deliveries SET seq = $5, claim = $6, tenant = $7,
		due_at = CASE WHEN created_at + $9 < $8 THEN created_at + $9 ELSE $8 END
		WHERE ` + debounced + ` AND event = $4 AND replay = 0 AND seq < $5`
	flushDebounced = `UPDATE deliveries SET due_at = $4 WHERE ` + debounced + ` AND due_at > $4`
	adoptDelivery  = `UPDATE deliveries SET owner = $2 WHERE id = $1 AND state = 'running'`
	// lockEvent locks the event against its removal by retention.
	lockEvent = `SELECT seq FROM events WHERE seq = $1` + forShare

	selectOwner        = `SELECT state, owner FROM deliveries WHERE id = $1` + forUpdate
	activeClaimFence   = `SELECT state, fence FROM containers WHERE id = $1` + forShare
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
			d.Seq, d.Claim, d.Tenant, toNanos(due), delivery.MaxWindows*c.Debounce.Nanoseconds())
		if err != nil || n > 0 {
			return err
		}
	}
	return execLater(t, insertDelivery, &d, t.owner)
}

// UpdateDelivery changes a delivery with its run.
func (db *DB) UpdateDelivery(ctx context.Context, m delivery.Transition) (p delivery.Permission, err error) {
	err = db.writer.update(ctx, func(t *tx) (err error) {
		if err := lockDelivery(t, m); err != nil {
			return err
		}
		p = delivery.Permission{}
		d := m.Delivery
		if !d.State.IsLive() && d.EndedAt == nil {
			d.EndedAt = &t.now
		}
		args, err := updateDelivery.args(&d, t.owner)
		if err != nil {
			return err
		}
		if err := t.execLater(updateDelivery.text, args...); err != nil {
			return err
		}
		if m.Run != nil {
			if p, err = updateDeliveryRun(t, *m.Run); err != nil {
				return err
			}
		}
		return t.addEvents(m.Events...)
	})
	if err != nil {
		return p, fmt.Errorf("update delivery %s: %w", m.ID, err)
	}
	return p, nil
}

// lockDelivery locks a delivery and returns an error if it must not change as the
// transition says.
func lockDelivery(t *tx, m delivery.Transition) error {
	var state, owner string
	err := t.query(selectOwner, m.ID).Scan(&state, &owner)
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
	if r.Claim != "" {
		err := t.query(stateOfClaim, r.Claim).Scan(&state, &container)
		if errors.Is(err, sql.ErrNoRows) || err == nil && (state != string(claim.Active) || container != r.Container) {
			return 0, delivery.ErrClaimEnded
		}
		if err != nil {
			return 0, translateError(err)
		}
	}
	err = t.query(activeClaimFence, r.Container).Scan(&state, &fence)
	wanted := pool.Idle
	if r.Claim != "" {
		wanted = pool.Claimed
	}
	if errors.Is(err, sql.ErrNoRows) || err == nil && state != string(wanted) {
		return 0, delivery.ErrClaimEnded
	}
	return fence, translateError(err)
}

// AdoptDelivery makes this server the owner of a running delivery.
func (db *DB) AdoptDelivery(ctx context.Context, id string) error {
	err := db.writer.update(ctx, func(t *tx) error {
		n, err := t.exec(adoptDelivery, id, t.owner)
		if err == nil && n == 0 {
			err = delivery.ErrConflict
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("adopt delivery %s: %w", id, err)
	}
	return nil
}

// Delivery returns one delivery.
func (db *DB) Delivery(ctx context.Context, id string) (delivery.Delivery, error) {
	d, err := queryRow(ctx, db, scanDelivery, selectDelivery, sanitizeText(id))
	if err != nil {
		return d, fmt.Errorf("read delivery %s: %w", id, err)
	}
	return d, nil
}

// FirstDelivery returns the first live delivery of a key.
func (db *DB) FirstDelivery(ctx context.Context, k delivery.Key) (delivery.Delivery, error) {
	d, err := queryRow(ctx, db, scanDelivery, firstDelivery, k.Workload, k.Hook, k.Lane)
	if err != nil {
		return d, fmt.Errorf("read the next delivery of hook %s: %w", k.Hook, err)
	}
	return d, nil
}

func scanDelivery(r row) (delivery.Delivery, error) {
	d, err := deliveryColumns.scan(r)
	if errors.Is(err, sql.ErrNoRows) {
		return d, delivery.ErrNotFound
	}
	return d, translateError(err)
}

// Deliveries lists the matching deliveries.
func (db *DB) Deliveries(ctx context.Context, f delivery.Filter) ([]delivery.Delivery, error) {
	var w where
	w.equal("workload", f.Workload)
	w.equal("hook", f.Hook)
	w.equal("container", f.Container)
	w.equal("claim", f.Claim)
	w.equal("tenant", f.Tenant)
	if len(f.States) > 0 {
		oneOf(&w, "state", f.States)
	}
	if f.After != "" {
		w.add("id > " + w.arg(sanitizeText(f.After)))
	}
	return queryAll(ctx, db, "deliveries", selectDeliveries+w.String()+byID+w.limit(f.Limit), w.args, deliveryColumns.scan)
}

// DeliveryKeys lists the keys that have live deliveries.
func (db *DB) DeliveryKeys(ctx context.Context) ([]delivery.Key, error) {
	return queryAll(ctx, db, "the hooks with deliveries", deliveryKeys, nil, func(r row) (k delivery.Key, err error) {
		err = r.Scan(&k.Workload, &k.Hook, &k.Lane)
		return k, err
	})
}

// DeliveryStatus returns the state of the queue.
func (db *DB) DeliveryStatus(ctx context.Context) (delivery.Status, error) {
	s := delivery.Status{Live: map[delivery.State]int{}}
	err := db.readTx(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, countLive)
		if err != nil {
			return err
		}
		_, err = collectRows(rows, func(r row) (n int, err error) {
			var state string
			err = r.Scan(&state, &n)
			s.Live[delivery.State(state)] = n
			return n, err
		})
		if err != nil {
			return err
		}
		var oldest sql.NullInt64
		if err := tx.QueryRowContext(ctx, oldestLive).Scan(&oldest); err != nil {
			return err
		}
		var passed, last int64
		err = tx.QueryRowContext(ctx, `SELECT seq, (SELECT last FROM log WHERE id = 1) FROM cursors WHERE name = $1`, deliveryCursorName).Scan(&passed, &last)
		if err == nil && last > passed {
			s.Behind = last - passed
			if !oldest.Valid || passed+1 < oldest.Int64 {
				oldest = sql.NullInt64{Int64: passed + 1, Valid: true}
			}
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if !oldest.Valid {
			return nil
		}
		at, err := scanNumber(tx.QueryRowContext(ctx, eventTime, oldest.Int64))
		s.Oldest = fromNanos(at)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("read the state of deliveries: %w", err)
	}
	return s, nil
}
