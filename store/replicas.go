package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Several servers may use one PostgreSQL database. Each has a row that it
// renews. A server that does not renew its row is considered dead, and another
// one finishes its work. It may still be alive and only slow. Therefore a
// takeover raises the epoch in the row, and every change of a server first
// checks that its row still has the epoch that it knows, and locks the row
// against a takeover until the change is durable or undone. A change by a
// fenced server is ErrFenced and has no effect.
//
// Times are those of the servers' own clocks, and takeOverMargin is how much
// they may differ. The database's clock would need no margin, but would cost a
// query, and tests cannot set it. A clock that is wrong by more causes a
// takeover that is too early or too late. That costs time, and never
// correctness, which depends on epochs alone.
//
// An SQLite file has one server, and its lock proves that all others are dead.

const (
	// LeaseTime is how long a server is considered alive after it has
	// registered or renewed, and how long a lease lasts. Renew at a third of
	// it.
	LeaseTime = 15 * time.Second
	// takeOverMargin is how much later other servers consider a lease expired.
	takeOverMargin = 5 * time.Second
	// maxClockSkew is the maximum difference between a server's clock and the
	// database's. If it is larger than a lease, the other servers always
	// consider the server dead, and would take over from it indefinitely.
	maxClockSkew = 2 * takeOverMargin
)

// Errors about the servers that use a database.
var (
	// ErrFenced indicates that another server has taken over from this one,
	// which can no longer write and must exit.
	ErrFenced = errors.New("another server has taken over from this one")
	// ErrNotExpired indicates that a server has renewed its lease recently, or
	// that another server is already taking over from it.
	ErrNotExpired = errors.New("the server's lease has not expired")
	// ErrReplicaNotFound indicates that there is no such server, or no longer.
	ErrReplicaNotFound = errors.New("no such server")
)

// Replica is a server that uses the database.
type Replica struct {
	ID        string
	Host      string // for display
	Epoch     int64
	StartedAt time.Time
	ExpiresAt time.Time
}

// id returns the server's id, "" for nil.
func (r *Replica) id() string {
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
		AND NOT EXISTS (SELECT 1 FROM runs WHERE ` + runningCondition + ` AND owner = $1)`
	expireReplica   = `UPDATE replicas SET expires_at = 0 WHERE id = $1 AND epoch = $2`
	markReplicaDead = `UPDATE replicas SET expires_at = 0 WHERE id = $1`
	expireLeases    = `UPDATE leases SET expires_at = 0 WHERE holder = $1`
	// checkFence locks against a takeover (forUpdate), not against a renewal
	// and not against other changes of the same server.
	checkFence = `SELECT epoch FROM replicas WHERE id = $1 AND epoch = $2 FOR KEY SHARE`
)

// Register adds this server to those that use the database. Every later change
// is fenced. It is called once. On a machine whose clock is far from the
// database's it returns ErrClockSkew.
func (db *DB) Register(ctx context.Context, host string) (Replica, error) {
	if err := db.compareClocks(ctx); err != nil {
		return Replica{}, fmt.Errorf("register server %s: %w", host, err)
	}
	r := Replica{ID: uuid.Must(uuid.NewV7()).String(), Host: sanitizeText(host), Epoch: 1}
	err := db.writer.update(ctx, func(t *tx) error {
		r.StartedAt, r.ExpiresAt = t.now, t.now.Add(LeaseTime)
		return t.execLater(insertReplica, r.ID, r.Host, r.Epoch, toNanos(r.StartedAt), toNanos(r.ExpiresAt))
	})
	if err != nil {
		return Replica{}, fmt.Errorf("register server %s: %w", host, err)
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
	theirs, err := queryRow(ctx, db, scanNumber, db.dialect.clockQuery)
	if err != nil {
		return fmt.Errorf("read the database's clock: %w", err)
	}
	behind, ahead := time.Until(fromNanos(theirs)), asked.Sub(fromNanos(theirs))
	switch {
	case behind > maxClockSkew:
		return fmt.Errorf("%w: this one is %s behind; set both by NTP", ErrClockSkew, behind.Round(time.Second))
	case ahead > maxClockSkew:
		return fmt.Errorf("%w: this one is %s ahead; set both by NTP", ErrClockSkew, ahead.Round(time.Second))
	}
	return nil
}

// Renew extends this server's lease. After a takeover it returns ErrFenced.
func (db *DB) Renew(ctx context.Context) error {
	self, err := db.replica()
	if err != nil {
		return err
	}
	err = db.writer.update(ctx, func(t *tx) error {
		n, err := t.exec(renewReplica, self.ID, self.Epoch, toNanos(t.now.Add(LeaseTime)))
		if err == nil && n == 0 {
			err = ErrFenced
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("renew server %s: %w", self.ID, err)
	}
	return nil
}

// Expired lists the other servers whose leases have expired.
func (db *DB) Expired(ctx context.Context) ([]Replica, error) {
	self, err := db.replica()
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, db, "expired servers", expiredReplicas, []any{self.ID, toNanos(db.expiryDeadline(time.Now()))}, scanReplica)
}

// Fence fences a server whose lease has expired. The caller finishes its work
// and then calls RemoveReplica. Fence returns the updated record. For LeaseTime
// no other server can take over from it; after that the caller itself is
// considered dead.
func (db *DB) Fence(ctx context.Context, id string) (Replica, error) {
	var r Replica
	err := db.writer.update(ctx, func(t *tx) (err error) {
		r, err = scanReplica(t.query(selectReplica+forUpdate, sanitizeText(id)))
		if errors.Is(err, sql.ErrNoRows) {
			return ErrReplicaNotFound
		}
		if err != nil {
			return translateError(err)
		}
		if !r.ExpiresAt.Before(db.expiryDeadline(t.now)) {
			return ErrNotExpired
		}
		r.Epoch, r.ExpiresAt = r.Epoch+1, t.now.Add(LeaseTime)
		return t.execLater(fenceReplica, r.ID, r.Epoch, toNanos(r.ExpiresAt))
	})
	if err != nil {
		return Replica{}, fmt.Errorf("take over from server %s: %w", id, err)
	}
	return r, nil
}

// RemoveReplica removes a server whose work is finished. The server that took
// over from it calls it. It returns ErrReplicaNotFound when another server has
// taken over since.
func (db *DB) RemoveReplica(ctx context.Context, r Replica) error {
	err := db.writer.update(ctx, func(t *tx) error {
		n, err := t.exec(deleteReplica, r.ID, r.Epoch)
		if err == nil && n == 0 {
			err = ErrReplicaNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove server %s: %w", r.ID, err)
	}
	return nil
}

// Deregister removes this server at its shutdown. It changes nothing
// afterwards. When it leaves unfinished work, another server can take over at
// once.
func (db *DB) Deregister(ctx context.Context) error {
	self, err := db.replica()
	if err != nil {
		return err
	}
	err = db.writer.update(ctx, func(t *tx) error {
		n, err := t.exec(deregisterReplica, self.ID, self.Epoch)
		if err == nil && n == 0 {
			err = t.execLater(expireReplica, self.ID, self.Epoch)
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrFenced) {
		return fmt.Errorf("deregister server %s: %w", self.ID, err)
	}
	return nil
}

// MarkDead records that another server is dead, so that a takeover is possible
// at once. The caller must know it for certain.
func (db *DB) MarkDead(ctx context.Context, id string) error {
	err := db.writer.update(ctx, func(t *tx) error {
		if err := t.execLater(markReplicaDead, sanitizeText(id)); err != nil {
			return err
		}
		return t.execLater(expireLeases, sanitizeText(id))
	})
	if err != nil {
		return fmt.Errorf("record that server %s is dead: %w", id, err)
	}
	return nil
}

// replica returns this server.
func (db *DB) replica() (Replica, error) {
	if r := db.self.Load(); r != nil {
		return *r, nil
	}
	return Replica{}, errors.New("this server has not registered with the database")
}

// expiryDeadline returns the time before which a lease of another server must
// have ended to count as expired.
func (db *DB) expiryDeadline(now time.Time) time.Time {
	if db.dialect.singleServer {
		return time.Unix(0, 1<<62) // they are dead, regardless of their leases
	}
	return now.Add(-takeOverMargin)
}

func scanReplica(r row) (Replica, error) {
	var v Replica
	var started, expires int64
	err := r.Scan(&v.ID, &v.Host, &v.Epoch, &started, &expires)
	v.StartedAt, v.ExpiresAt = fromNanos(started), fromNanos(expires)
	return v, err
}

// IsShared reports whether several servers may use the database concurrently.
// Then each must call Register.
func (db *DB) IsShared() bool { return !db.dialect.singleServer }

// Self returns this server's id, or "" when it has not registered.
func (db *DB) Self() string { return db.self.Load().id() }
