package store

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/membership"
)

// leaderLease is the name of the lease that the leader holds.
const leaderLease = "pools"

const (
	addLease    = `INSERT INTO leases (name, holder, epoch, expires_at) VALUES ($1, '', 0, 0) ON CONFLICT (name) DO NOTHING`
	selectLease = `SELECT holder, epoch, expires_at FROM leases WHERE name = $1`
	endLease    = `UPDATE leases SET expires_at = 0 WHERE name = $1 AND holder = $2`
	saveLease   = `UPDATE leases SET holder = $2, epoch = $3, expires_at = $4 WHERE name = $1`
	// renewLeadership does not extend a lease whose holder has resigned.
	renewLeadership = `UPDATE leases SET expires_at = $3 WHERE name = $1 AND holder = $2 AND expires_at > 0`
)

// lease is the record of the leadership.
type lease struct {
	holder  string // a replica's id
	term    int64  // how often the holder has changed
	expires int64  // 0: the holder has resigned
}

// Campaign makes this server the leader if no server leads, or if the leader's
// lease had expired at asOf. It returns the number of the term, 0 if another
// server leads.
func (db *DB) Campaign(ctx context.Context, asOf time.Time) (term int64, err error) {
	self, err := db.replica()
	if err != nil {
		return 0, err
	}
	err = db.writer.update(ctx, func(t *tx) error {
		term = 0
		now, err := db.leaseTime(t)
		if err != nil {
			return err
		}
		if err := t.execLater(addLease, leaderLease); err != nil {
			return err
		}
		var l lease
		if err := t.query(selectLease+forUpdate, leaderLease).Scan(&l.holder, &l.term, &l.expires); err != nil {
			return translateError(err)
		}
		if l.holder != self.ID {
			if asOf.IsZero() {
				asOf = time.Unix(0, 0)
			} else if asOf.After(now) {
				asOf = now
			}
			if l.expires != 0 && l.expires >= toNanos(db.expiryDeadline(asOf)) {
				return nil
			}
			l.holder, l.term = self.ID, l.term+1
		}
		term = l.term
		return t.execLater(saveLease, leaderLease, l.holder, l.term, toNanos(now.Add(membership.LeaseTime)))
	})
	if err != nil {
		return 0, fmt.Errorf("campaign for leadership: %w", err)
	}
	return term, nil
}

// Resign gives up this server's leadership, so that another server can acquire
// it at once. It does nothing if this server is not the leader.
func (db *DB) Resign(ctx context.Context) error {
	err := db.writer.update(ctx, func(t *tx) error { return t.execLater(endLease, leaderLease, db.Self()) })
	if err != nil {
		return fmt.Errorf("resign leadership: %w", err)
	}
	return nil
}

var _ membership.Store = (*DB)(nil)
