package membership

import (
	"context"
	"errors"
	"time"
)

const (
	// LeaseTime is how long a lease lasts after its renewal.
	LeaseTime = 15 * time.Second
	// HeartbeatInterval is the time between two renewals.
	HeartbeatInterval = LeaseTime / 3
	// TakeoverMargin is how much later other servers treat a lease as expired.
	TakeoverMargin = 5 * time.Second

	// renewTimeout bounds one attempt to renew. A request whose connection is
	// silent is never answered.
	renewTimeout = 4 * time.Second
	// renewRetryDelay is the time between a failed renewal and the next one. Two
	// attempts may fail and the third still begins within LeaseTime.
	renewRetryDelay = time.Second
)

// Errors of a Store.
var (
	// ErrFenced indicates that another server has taken over from this one,
	// which can no longer write and must exit.
	ErrFenced = errors.New("another server has taken over from this one")
	// ErrReplaced indicates that another server has become leader in place of this
	// one, which must exit.
	ErrReplaced = errors.New("another server became leader")
	// ErrNotExpired indicates that a server has renewed its lease recently, or
	// that another server is already taking over from it.
	ErrNotExpired = errors.New("the server's lease has not expired")
	// ErrReplicaNotFound indicates that there is no such server, or no longer.
	ErrReplicaNotFound = errors.New("no such server")
)

// Replica is a server that uses the database. Its times are the database's.
type Replica struct {
	ID        string
	Host      string // for display
	Epoch     int64  // raised when the server is fenced
	StartedAt time.Time
	ExpiresAt time.Time // zero: it has left, and work remains
}

// HasLeft reports whether the server has left with unfinished work. Another one
// may take over at once.
func (r Replica) HasLeft() bool { return r.ExpiresAt.IsZero() }

// Store is the database, as one server uses it. Many goroutines may call all
// methods concurrently. Each change is one transaction, and is either durable or
// undone when the method returns, except that an error which is none of this
// package's may hide a success. Except for Register and Expired, a method of a
// server that was fenced returns ErrFenced and changes nothing.
type Store interface {
	Leases
	Leadership
	Takeovers
}

// Leases keeps the row of this server.
type Leases interface {
	// Register adds a row for this server with a lease for LeaseTime. It is
	// called once, before all other methods. Every later change of this server,
	// also by other packages, checks the epoch of the row.
	Register(ctx context.Context, host string) (Replica, error)
	// Renew extends the lease of this server to LeaseTime from now, and returns
	// the time by the database's clock. In the same transaction it extends the
	// leadership, if this server has it and has not resigned. An expired lease is
	// renewed as well, as long as no other server has fenced this one. With leads,
	// a server that does not have the leadership gets ErrReplaced, and its lease
	// stays as it is: the new leader has to fence it. Renew returns as soon as ctx
	// ends.
	Renew(ctx context.Context, leads bool) (time.Time, error)
	// Deregister removes the row and ends the leadership of this server, which is
	// fenced from then on: changes in progress are finished or undone, and later
	// ones rejected. When records remain that only this server or its successor
	// may change, the row stays and its ExpiresAt becomes zero. A fenced server
	// gets nil.
	Deregister(ctx context.Context) error
}

// Leadership is held by one server at a time.
type Leadership interface {
	// Campaign makes this server the leader for LeaseTime if no server leads:
	// the leadership was never held, or its holder resigned, or it expired
	// TakeoverMargin before asOf and before the time of the database's clock. In
	// the last case it also fences the holder, which did not renew for as long, as
	// if that had left. It returns the number of the term, which grows with each
	// change of the leader, and 0 when another server leads. The leader itself
	// gets its term.
	Campaign(ctx context.Context, asOf time.Time) (term int64, err error)
	// Resign ends this server's leadership: another server can lead at once. It
	// does nothing if this server does not lead.
	Resign(ctx context.Context) error
}

// Takeovers finds and fences other servers.
type Takeovers interface {
	// Expired lists the other servers that left with unfinished work, and those
	// whose leases expired more than TakeoverMargin ago.
	Expired(ctx context.Context) ([]Replica, error)
	// Fence raises the epoch of a server that left, or whose lease expired
	// TakeoverMargin before asOf and before the time of the database's clock, and
	// extends its lease to LeaseTime from now: until then and TakeoverMargin later
	// no other server can fence it. After Fence returned, the server changes
	// nothing: changes in progress are finished or undone. A server that renewed
	// in time, or that was fenced since, is ErrNotExpired; one without a row is
	// ErrReplicaNotFound.
	Fence(ctx context.Context, id string, asOf time.Time) (Replica, error)
	// RemoveReplica removes the row of a server whose work was taken over, as
	// Fence returned it. If it has another epoch, it returns ErrReplicaNotFound.
	RemoveReplica(ctx context.Context, r Replica) error
}
