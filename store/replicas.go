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
// renews; who does not is taken for dead, and another one finishes what it has
// begun. It may be alive all the same, and only slow: so taking over raises the
// epoch in its row, and every change of a server first looks whether its row
// still has the epoch that it knows, and keeps the row from being taken over
// until the change is durable or undone. What a server that was taken over
// still tries is ErrFenced: nothing of it happens after the taking over.
//
// Times are those of the servers' own clocks, and margin is how far these may
// be apart. The database's clock would need no margin, but would have to be
// asked, and is not the one that tests can turn. A clock that is wrong by more
// makes a server be taken over too early or too late: that costs time, and
// never correctness, which rests on epochs alone.
//
// An SQLite file has one server, and its lock says that all others are dead.

const (
	// LeaseTime is how long a server is believed to be alive after it has
	// registered or renewed, and a leader to lead. Renew at a third of it.
	LeaseTime = 15 * time.Second
	// takeOverMargin is how much later others think so.
	takeOverMargin = 5 * time.Second
	// maxClockSkew is how far a server's clock may be from the database's. Of one that
	// is wrong by more than a lease the others think that it is dead whenever
	// they look, and it would be taken over from for ever.
	maxClockSkew = 2 * takeOverMargin
)

// Errors about the servers that use a database.
var (
	// ErrFenced says that another server has taken over from this one, which
	// can write no more and has to end.
	ErrFenced = errors.New("another server has taken over from this one")
	// ErrNotExpired says that a server has been heard of lately, or that another one
	// takes over from it already.
	ErrNotExpired = errors.New("the server is not to be taken over")
	// ErrReplicaNotFound says that there is no such server, or not any more.
	ErrReplicaNotFound = errors.New("no such server")
)

// Replica is a server that uses the database.
type Replica struct {
	ID        string
	Host      string // for people
	Epoch     int64
	StartedAt time.Time
	ExpiresAt time.Time
}

// id is the server's, empty without one.
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
	// deregisterReplica forgets a server that leaves nothing to be finished.
	deregisterReplica = deleteReplica + `
		AND NOT EXISTS (SELECT 1 FROM claims WHERE state IN ('pending', 'releasing') AND ` + liveCondition + ` AND owner = $1)
		AND NOT EXISTS (SELECT 1 FROM containers WHERE state = 'creating' AND owner = $1)
		AND NOT EXISTS (SELECT 1 FROM runs WHERE ` + runningCondition + ` AND owner = $1)`
	expireReplica   = `UPDATE replicas SET expires_at = 0 WHERE id = $1 AND epoch = $2`
	markReplicaDead = `UPDATE replicas SET expires_at = 0 WHERE id = $1`
	expireLeases    = `UPDATE leases SET expires_at = 0 WHERE holder = $1`
	// checkFence locks against taking over (forUpdate), not against renewing
	// and not against other changes of the same server.
	checkFence = `SELECT epoch FROM replicas WHERE id = $1 AND epoch = $2 FOR KEY SHARE`
)

// Register makes this server one of those that use the database. Every change
// that is begun later is fenced. It is called once. On a machine whose clock is
// far from the database's it is ErrClockSkew.
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

// compareClocks asks the database what time it is. The answer was given some
// time between the question and its arrival.
func (db *DB) compareClocks(ctx context.Context) error {
	if db.dialect.clockQuery == "" {
		return nil
	}
	asked := time.Now()
	theirs, err := queryRow(ctx, db, scanNumber, db.dialect.clockQuery)
	if err != nil {
		return fmt.Errorf("ask the database what time it is: %w", err)
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

// Renew says that this server is alive. Once it has been taken over it is
// ErrFenced.
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

// Expired lists the other servers that are taken for dead.
func (db *DB) Expired(ctx context.Context) ([]Replica, error) {
	self, err := db.replica()
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, db, "expired servers", expiredReplicas, []any{self.ID, toNanos(db.expiryDeadline(time.Now()))}, scanReplica)
}

// Fence fences a server that is taken for dead, for whoever is to finish
// what it has begun, and then to Dismiss it. It returns the record as it is
// now. For LeaseTime nobody else takes over from it: then it is to be thought
// that the taker is dead too.
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

// RemoveReplica forgets a server of which nothing is left to be finished: one that
// was taken over, by who took over. It is
// ErrReplicaNotFound when somebody else has taken over meanwhile.
func (db *DB) RemoveReplica(ctx context.Context, r Replica) error {
	err := db.writer.update(ctx, func(t *tx) error {
		n, err := t.exec(deleteReplica, r.ID, r.Epoch)
		if err == nil && n == 0 {
			err = ErrReplicaNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("dismiss server %s: %w", r.ID, err)
	}
	return nil
}

// Deregister says that this server has come to its end, and changes nothing any
// more. When it leaves something to be finished it is to be taken over at once.
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
		return fmt.Errorf("leave the database as server %s: %w", self.ID, err)
	}
	return nil
}

// MarkDead says that another server is dead, by who knows it for certain: it is to
// be taken over at once.
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

// replica is this server.
func (db *DB) replica() (Replica, error) {
	if r := db.self.Load(); r != nil {
		return *r, nil
	}
	return Replica{}, errors.New("this server has not registered with the database")
}

// expiryDeadline is the time that a lease of another server must have ended before,
// to be over now.
func (db *DB) expiryDeadline(now time.Time) time.Time {
	if db.dialect.singleServer {
		return time.Unix(0, 1<<62) // they are dead, whatever they have promised
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

// IsShared says whether several servers may use the database at once. Then each
// has to Register.
func (db *DB) IsShared() bool { return !db.dialect.singleServer }

// Self is this server's id, empty when it has not registered.
func (db *DB) Self() string { return db.self.Load().id() }
