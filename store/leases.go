package store

import (
	"context"
	"fmt"
	"time"
)

// Lease is the leadership of one task that needs only one server. Leadership
// saves work and guarantees nothing: two servers may briefly believe that they
// lead, and all that a leader does must be correct then too.
type Lease struct {
	Name      string
	Holder    string // a Replica's id
	Epoch     int64  // how often the holder has changed
	ExpiresAt time.Time
}

const (
	addLease    = `INSERT INTO leases (name, holder, epoch, expires_at) VALUES ($1, '', 0, 0) ON CONFLICT (name) DO NOTHING`
	selectLease = `SELECT name, holder, epoch, expires_at FROM leases WHERE name = $1`
	endLease    = `UPDATE leases SET expires_at = 0 WHERE name = $1 AND holder = $2`
	saveLease   = `UPDATE leases SET holder = $2, epoch = $3, expires_at = $4 WHERE name = $1`
)

// TryAcquireLease acquires the lease, or extends it, for LeaseTime, and reports
// whether this server is the leader. It returns the lease of the leader.
func (db *DB) TryAcquireLease(ctx context.Context, name string) (Lease, bool, error) {
	self, err := db.replica()
	if err != nil {
		return Lease{}, false, err
	}
	var l Lease
	err = db.writer.update(ctx, func(t *tx) (err error) {
		if err := t.execLater(addLease, name); err != nil {
			return err
		}
		if l, err = scanLease(t.query(selectLease+forUpdate, name)); err != nil {
			return translateError(err)
		}
		if l.Holder != self.ID {
			if !l.ExpiresAt.Before(db.expiryDeadline(t.now)) {
				return nil
			}
			l.Holder, l.Epoch = self.ID, l.Epoch+1
		}
		l.ExpiresAt = t.now.Add(LeaseTime)
		return t.execLater(saveLease, l.Name, l.Holder, l.Epoch, toNanos(l.ExpiresAt))
	})
	if err != nil {
		return Lease{}, false, fmt.Errorf("acquire lease %s: %w", name, err)
	}
	return l, l.Holder == self.ID, nil
}

// Resign gives up this server's lease, so that another server can acquire it at
// once. It does nothing if this server is not the leader.
func (db *DB) Resign(ctx context.Context, name string) error {
	err := db.writer.update(ctx, func(t *tx) error { return t.execLater(endLease, name, db.Self()) })
	if err != nil {
		return fmt.Errorf("resign lease %s: %w", name, err)
	}
	return nil
}

func scanLease(r row) (Lease, error) {
	var l Lease
	var expires int64
	err := r.Scan(&l.Name, &l.Holder, &l.Epoch, &expires)
	l.ExpiresAt = fromNanos(expires)
	return l, err
}
