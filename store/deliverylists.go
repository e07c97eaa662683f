package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
)

const (
	// waitingDelivery is the condition for a delivery that may be discarded.
	waitingDelivery = liveDelivery + ` AND state <> 'running'`
	oldDeliveries   = ` WHERE ` + waitingDelivery + ` AND created_at < $1 ORDER BY created_at LIMIT $2`
	// fullQueues and fullTenants are the queues that are too long, of workloads and
	// of tenants, and have deliveries of tenants' events.
	fullQueues = `SELECT workload, '', count(*) FROM deliveries WHERE ` + liveDelivery + `
		GROUP BY workload HAVING count(*) > $1 AND min(priority) <= $2`
	fullTenants = `SELECT workload, tenant, count(*) FROM deliveries WHERE ` + liveDelivery + ` AND priority <= $2
		GROUP BY workload, tenant HAVING count(*) > $1`
	tenantsOfQueue = ` WHERE workload = $1 AND (tenant = $2 OR $2 = '') AND ` + waitingDelivery + ` AND priority <= $3 ORDER BY priority, seq LIMIT $4`
)

// Delivery returns one delivery.
func (db *DB) Delivery(ctx context.Context, id string) (delivery.Delivery, error) {
	d, err := queryRow(ctx, db, scanDelivery, selectDelivery, sanitizeText(id))
	if err != nil {
		return d, readError(err, delivery.ErrNotFound, "read delivery", id)
	}
	return d, nil
}

// Event returns the event with a number.
func (db *DB) Event(ctx context.Context, seq int64) (activity.Event, error) {
	if p, ok, err := db.buffer.page(activity.Filter{}, seq-1, 1); err == nil && ok && len(p.Items) == 1 && p.Items[0].Seq == seq {
		return p.Items[0], nil
	}
	e, err := queryRow(ctx, db, eventColumns.scan, selectEvent, seq)
	if errors.Is(err, sql.ErrNoRows) {
		err = delivery.ErrEventRemoved
	}
	if err != nil {
		return e, fmt.Errorf("read event %d: %w", seq, err)
	}
	return e, nil
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
	w.scope(f.Scope, "claim")
	if len(f.States) > 0 {
		oneOf(&w, "state", f.States)
	}
	w.idPart(f.IDPart)
	w.beyond(f.After, f.Newest)
	return queryAll(ctx, db, "deliveries", selectDeliveries+w.String()+ordered(byID, f.Newest)+w.limit(f.Limit), w.args, deliveryColumns.scan)
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

// ExcessDeliveries returns deliveries that are to be discarded.
func (db *DB) ExcessDeliveries(ctx context.Context, before time.Time, perWorkload, perTenant, limit int) ([]delivery.Delivery, error) {
	all, err := queryAll(ctx, db, "old deliveries", selectDeliveries+oldDeliveries, []any{toNanos(before), limit}, deliveryColumns.scan)
	if err != nil || len(all) == limit {
		return all, err
	}
	for _, bound := range []struct {
		full  string
		limit int
	}{{fullTenants, perTenant}, {fullQueues, perWorkload}} {
		excess, err := db.excessOf(ctx, bound.full, bound.limit, limit)
		if err != nil || len(excess) > 0 {
			return append(all, excess...), err // a workload's queue may then not be full
		}
	}
	return all, nil
}

// excessOf returns the deliveries to discard of each queue that is longer than a
// bound, at most limit of each.
func (db *DB) excessOf(ctx context.Context, full string, bound, limit int) (all []delivery.Delivery, err error) {
	type queue struct {
		workload, tenant string
		length           int
	}
	queues, err := queryAll(ctx, db, "full queues", full, []any{bound, delivery.MaxTenantPriority}, func(r row) (q queue, err error) {
		err = r.Scan(&q.workload, &q.tenant, &q.length)
		return q, err
	})
	for _, q := range queues {
		args := []any{q.workload, q.tenant, delivery.MaxTenantPriority, min(q.length-bound, limit)}
		excess, err := queryAll(ctx, db, "deliveries of a full queue", selectDeliveries+tenantsOfQueue, args, deliveryColumns.scan)
		if err != nil {
			return nil, err
		}
		all = append(all, excess...)
	}
	return all, err
}
