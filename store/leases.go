package store

import (
	"context"
	"database/sql"
	"errors"
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
	saveLease   = `UPDATE leases SET holder = $2, epoch = $3, expires_at = $4 WHERE name = $1
		AND holder = $5 AND epoch = $6 AND expires_at = $7`
	// renewLeadership does not extend a lease whose holder has resigned.
	renewLeadership = `UPDATE leases SET expires_at = $3 WHERE name = $1 AND holder = $2 AND expires_at > 0`
)

// lease is the record of the leadership.
type lease struct {
	holder  string // a replica's id
	term    int64  // how often the holder has changed
	expires int64  // 0: the holder has resigned
}

// errCampaignLost undoes a campaign because the leadership has changed in the meantime.
var errCampaignLost = errors.New("the leadership has changed")

// Campaign makes this server the leader if no server leads, or if the leader's
// lease had expired at asOf: then it fences the leader. It returns the number of
// the term, 0 if another server leads.
func (db *DB) Campaign(ctx context.Context, asOf time.Time) (term int64, err error) {
	self, err := db.replica()
	if err != nil {
		return 0, err
	}
	err = db.leases.update(ctx, func(t *tx) error {
		term = 0
		now, err := db.leaseTime(t)
		if err != nil {
			return err
		}
		if err := t.execLater(addLease, leaderLease); err != nil {
			return err
		}
		// The row is not locked, so that no server that is stopped here blocks the
		// leader's renewals.
		var l lease
		if err := t.query(selectLease, leaderLease).Scan(&l.holder, &l.term, &l.expires); err != nil {
			return translateError(err)
		}
		next := lease{holder: self.ID, term: l.term, expires: toNanos(now.Add(membership.LeaseTime))}
		if l.holder != self.ID {
			next.term++
			if l.expires != 0 {
				if l.expires >= toNanos(db.expiryDeadline(now, asOf)) {
					return nil
				}
				if err := fenceLeader(t, l.holder); err != nil {
					return err
				}
			}
		}
		n, err := t.exec(saveLease, leaderLease, next.holder, next.term, next.expires, l.holder, l.term, l.expires)
		if err == nil && n == 0 {
			err = errCampaignLost
		}
		term = next.term
		return err
	})
	if errors.Is(err, errCampaignLost) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("campaign for leadership: %w", err)
	}
	return term, nil
}

// fenceLeader fences a leader that did not renew in time, as if it had left: its
// work is taken over next. Its row is locked before the leadership's, as by its
// renewal.
func fenceLeader(t *tx, id string) error {
	r, err := scanReplica(t.query(selectReplica+forUpdate, id))
	if errors.Is(err, sql.ErrNoRows) { // it was taken over before
		return nil
	}
	if err != nil {
		return translateError(err)
	}
	return t.execLater(expireReplica, r.ID, r.Epoch)
}

// Resign gives up this server's leadership, so that another server can acquire
// it at once. It does nothing if this server is not the leader.
func (db *DB) Resign(ctx context.Context) error {
	err := db.leases.update(ctx, func(t *tx) error { return t.execLater(endLease, leaderLease, db.Self()) })
	if err != nil {
		return fmt.Errorf("resign leadership: %w", err)
	}
	return nil
}

var _ membership.Store = (*DB)(nil)
