package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/membership"
)

// Several servers may use one PostgreSQL database. Each has a row that it
// renews; package membership describes who may take over when. A takeover raises
// the epoch in the row, and every change of a server first checks that its row
// still has the epoch that it knows, and locks the row against a takeover until
// the change is durable or undone. A change by a fenced server is
// membership.ErrFenced and has no effect.
//
// The times of leases are those of the database's clock, so that the servers'
// clocks may be wrong. It is read before rows are locked: waiting makes a lease
// end earlier, never later.
//
// An SQLite file has one server, and its lock proves that all others are dead.

// maxClockSkew is the maximum difference between a server's clock and the
// database's. Leases do not depend on it. Other times of records do, for example
// how long a claim is idle.
const maxClockSkew = 10 * time.Second

// replicaID returns the server's id, "" for nil.
func replicaID(r *membership.Replica) string {
	if r == nil {
		return ""
	}
	return r.ID
}

const (
	replicaColumns  = `id, host, epoch, started_at, expires_at`
	insertReplica   = `INSERT INTO replicas (` + replicaColumns + `) VALUES ($1, $2, $3, $4, $5)`
	selectReplica   = `SELECT ` + replicaColumns + ` FROM replicas WHERE id = $1`
	expiredReplicas = `SELECT ` + replicaColumns + ` FROM replicas WHERE id <> $1 AND expires_at < $2 ORDER BY id`
	renewReplica    = `UPDATE replicas SET expires_at = $3 WHERE id = $1 AND epoch = $2`
	fenceReplica    = `UPDATE replicas SET epoch = $2, expires_at = $3 WHERE id = $1`
	deleteReplica   = `DELETE FROM replicas WHERE id = $1 AND epoch = $2`
	// deregisterReplica removes a server that leaves no unfinished work.
	deregisterReplica = deleteReplica + `
		AND NOT EXISTS (SELECT 1 FROM claims WHERE state IN ('pending', 'releasing') AND ` + liveCondition + ` AND owner = $1)
		AND NOT EXISTS (SELECT 1 FROM containers WHERE state = 'creating' AND owner = $1)
		AND NOT EXISTS (SELECT 1 FROM waits WHERE ` + hookedWait + ` AND owner = $1)
		AND NOT EXISTS (SELECT 1 FROM runs WHERE ` + runningCondition + ` AND owner = $1)`
	// expireReplica fences a server of which another one takes over at once.
	expireReplica = `UPDATE replicas SET epoch = epoch + 1, expires_at = 0 WHERE id = $1 AND epoch = $2`
	// checkFence locks against a takeover (forUpdate), not against a renewal
	// and not against other changes of the same server.
	checkFence = `SELECT epoch FROM replicas WHERE id = $1 AND epoch = $2 FOR KEY SHARE`
)

// Register adds this server to those that use the database. On a machine whose
// clock is far from the database's it returns ErrClockSkew.
func (db *DB) Register(ctx context.Context, host string) (membership.Replica, error) {
	if err := db.compareClocks(ctx); err != nil {
		return membership.Replica{}, fmt.Errorf("register server %s: %w", host, err)
	}
	r := membership.Replica{ID: uuid.Must(uuid.NewV7()).String(), Host: sanitizeText(host), Epoch: 1}
	err := db.leases.update(ctx, func(t *tx) error {
		now, err := db.leaseTime(t)
		if err != nil {
			return err
		}
		r.StartedAt, r.ExpiresAt = now, now.Add(membership.LeaseTime)
		return t.execLater(insertReplica, r.ID, r.Host, r.Epoch, toNanos(r.StartedAt), toNanos(r.ExpiresAt))
	})
	if err != nil {
		return membership.Replica{}, fmt.Errorf("register server %s: %w", host, err)
	}
	db.self.Store(&r)
	return r, nil
}

// compareClocks compares this machine's clock with the database's. The answer
// was given at some time between the query and its arrival.
func (db *DB) compareClocks(ctx context.Context) error {
	if db.dialect.clockQuery == "" {
		return nil
	}
	asked := time.Now()
	theirs, err := db.currentLeaseTime(ctx)
	if err != nil {
		return err
	}
	behind, ahead := time.Until(theirs), asked.Sub(theirs)
	switch {
	case behind > maxClockSkew:
		return fmt.Errorf("%w: this one is %s behind; set both by NTP", ErrClockSkew, behind.Round(time.Second))
	case ahead > maxClockSkew:
		return fmt.Errorf("%w: this one is %s ahead; set both by NTP", ErrClockSkew, ahead.Round(time.Second))
	}
	return nil
}

// Renew extends this server's lease, and its leadership if it has it. It returns
// the time by the database's clock. After a takeover it returns
// membership.ErrFenced. With leads it returns membership.ErrReplaced if this
// server does not have the leadership.
func (db *DB) Renew(ctx context.Context, leads bool) (at time.Time, err error) {
	self, err := db.replica()
	if err != nil {
		return at, err
	}
	err = db.leases.update(ctx, func(t *tx) (err error) {
		if at, err = db.leaseTime(t); err != nil {
			return err
		}
		expires := toNanos(at.Add(membership.LeaseTime))
		n, err := t.exec(renewReplica, self.ID, self.Epoch, expires)
		if err == nil && n == 0 {
			err = membership.ErrFenced
		}
		if err != nil {
			return err
		}
		n, err = t.exec(renewLeadership, leaderLease, self.ID, expires)
		if err == nil && n == 0 && leads {
			err = membership.ErrReplaced
		}
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("renew server %s: %w", self.ID, err)
	}
	return at, nil
}

// Expired lists the other servers whose leases have expired.
func (db *DB) Expired(ctx context.Context) ([]membership.Replica, error) {
	self, err := db.replica()
	if err != nil {
		return nil, err
	}
	now, err := db.currentLeaseTime(ctx)
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, db, "expired servers", expiredReplicas, []any{self.ID, toNanos(db.expiryDeadline(now, now))}, scanReplica)
}

// Fence fences a server that left, or whose lease had expired at asOf, and
// returns the updated record.
func (db *DB) Fence(ctx context.Context, id string, asOf time.Time) (membership.Replica, error) {
	var r membership.Replica
	err := db.leases.update(ctx, func(t *tx) error {
		now, err := db.leaseTime(t)
		if err != nil {
			return err
		}
		r, err = scanReplica(t.query(selectReplica+forUpdate, sanitizeText(id)))
		if errors.Is(err, sql.ErrNoRows) {
			return membership.ErrReplicaNotFound
		}
		if err != nil {
			return translateError(err)
		}
		if !r.HasLeft() && !r.ExpiresAt.Before(db.expiryDeadline(now, asOf)) {
			return membership.ErrNotExpired
		}
		r.Epoch, r.ExpiresAt = r.Epoch+1, now.Add(membership.LeaseTime)
		return t.execLater(fenceReplica, r.ID, r.Epoch, toNanos(r.ExpiresAt))
	})
	if err != nil {
		return membership.Replica{}, fmt.Errorf("take over from server %s: %w", id, err)
	}
	return r, nil
}

// RemoveReplica removes a server whose work is finished.
func (db *DB) RemoveReplica(ctx context.Context, r membership.Replica) error {
	err := db.leases.update(ctx, func(t *tx) error {
		n, err := t.exec(deleteReplica, r.ID, r.Epoch)
		if err == nil && n == 0 {
			err = membership.ErrReplicaNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove server %s: %w", r.ID, err)
	}
	return nil
}

// Deregister removes this server at its shutdown, ends its leadership, and fences
// it. When it leaves unfinished work, another server can take over at once.
func (db *DB) Deregister(ctx context.Context) error {
	self, err := db.replica()
	if err != nil {
		return err
	}
	err = db.leases.update(ctx, func(t *tx) error {
		// What this server still changes, by goroutines that outlive its shutdown, is
		// committed or undone before the work that is left is counted.
		_, err := scanReplica(t.query(selectReplica+forUpdate, self.ID))
		if errors.Is(err, sql.ErrNoRows) {
			return membership.ErrFenced
		}
		if err != nil {
			return translateError(err)
		}
		n, err := t.exec(deregisterReplica, self.ID, self.Epoch)
		if err != nil {
			return err
		}
		if n == 0 {
			if err := t.execLater(expireReplica, self.ID, self.Epoch); err != nil {
				return err
			}
		}
		return t.execLater(endLease, leaderLease, self.ID)
	})
	if err != nil && !errors.Is(err, membership.ErrFenced) {
		return fmt.Errorf("deregister server %s: %w", self.ID, err)
	}
	return nil
}

// replica returns this server.
func (db *DB) replica() (membership.Replica, error) {
	if r := db.self.Load(); r != nil {
		return *r, nil
	}
	return membership.Replica{}, errors.New("this server has not registered with the database")
}

// expiryDeadline returns the time before which a lease of another server must
// have ended to count as expired at asOf. The zero time is before any.
func (db *DB) expiryDeadline(now, asOf time.Time) time.Time {
	switch {
	case db.dialect.singleServer:
		return time.Unix(0, 1<<62) // they are dead, regardless of their leases
	case asOf.IsZero():
		return time.Unix(0, 0)
	case asOf.After(now):
		asOf = now
	}
	return asOf.Add(-membership.TakeoverMargin)
}

// leaseTime returns the time by the clock of leases, in a change.
func (db *DB) leaseTime(t *tx) (time.Time, error) {
	if db.dialect.clockQuery == "" {
		return t.now, nil
	}
	n, err := scanNumber(t.query(db.dialect.clockQuery))
	return fromNanos(n), translateError(err)
}

// currentLeaseTime returns the time by the clock of leases.
func (db *DB) currentLeaseTime(ctx context.Context) (time.Time, error) {
	if db.dialect.clockQuery == "" {
		return time.Now(), nil
	}
	n, err := queryRow(ctx, db, scanNumber, db.dialect.clockQuery)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return fromNanos(n), nil
}

func scanReplica(r row) (membership.Replica, error) {
	var v membership.Replica
	var started, expires int64
	err := r.Scan(&v.ID, &v.Host, &v.Epoch, &started, &expires)
	v.StartedAt, v.ExpiresAt = fromNanos(started), fromNanos(expires)
	return v, err
}

// IsShared reports whether several servers may use the database concurrently.
// Then each must call Register.
func (db *DB) IsShared() bool { return !db.dialect.singleServer }

// Self returns this server's id, or "" when it has not registered.
func (db *DB) Self() string { return replicaID(db.self.Load()) }
