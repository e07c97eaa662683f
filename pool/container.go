package pool

import (
	"errors"
	"time"

	"github.com/hostler/hostler/runtime"
)

// State is where a container is in its life.
type State string

// The states of a container. Gone is kept as a record of what was.
const (
	Creating   State = "creating"
	Idle       State = "idle"
	Claimed    State = "claimed"
	Destroying State = "destroying"
	Destroyed  State = "destroyed"
)

// States lists every state, in the order of a container's life.
func States() []State { return []State{Creating, Idle, Claimed, Destroying, Destroyed} }

// Health is what Hostler's own checks say of a container.
type Health string

// The verdicts on a container.
const (
	Healthy   Health = "healthy"
	Unhealthy Health = "unhealthy" // its health check fails
	Exited    Health = "exited"    // its main process has ended
)

// Container is the record of one container.
type Container struct {
	ID       string `json:"id"`
	Workload string `json:"workload"`
	Revision string `json:"revision"`
	State    State  `json:"state"`
	Health   Health `json:"health,omitempty"`
	// Tenant is the tenant whose data may be in it: of its claim, or of its
	// last one, which is also that of a claim's container until it is wiped. It
	// is empty until the first reservation.
	Tenant string `json:"tenant,omitempty"`
	// Claim is the live claim that holds it.
	Claim string `json:"claim,omitempty"`
	// Snapshot is that of the tenant's state which its files have come from, or
	// gone into, last.
	Snapshot string           `json:"snapshot,omitempty"`
	Endpoint runtime.Endpoint `json:"endpoint"`
	Reason   string           `json:"reason,omitempty" doc:"Why it is being destroyed, was destroyed, or is not healthy."`
	// Fence grows whenever another flow, or another server, becomes responsible
	// for the container. It goes with the calls that change the container, so
	// that those of an earlier one are refused there: see runtime.ErrStaleFence.
	Fence int64 `json:"-"`
	// Protocol is the version that its program speaks. It never changes.
	Protocol  int       `json:"protocol" doc:"The version of the protocol that its program speaks: that of the server that made it."`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at" doc:"When its state last changed."`
	// WipedAt is when it was last emptied for a claim: what it has printed before
	// that is not for the tenant of that claim.
	WipedAt *time.Time `json:"wiped_at,omitempty" doc:"When it was last emptied for a claim."`
}

// FirstFence is the fence of a container that is being made.
const FirstFence = 1

// Errors of this package.
var (
	// ErrFull says that a pool holds as many containers as its max_size.
	ErrFull = errors.New("the pool is full")
	// ErrContainerNotFound says that there is no record of the container.
	ErrContainerNotFound = errors.New("no such container")
	// ErrWorkloadNotFound says that no workload of that name is applied.
	ErrWorkloadNotFound = errors.New("no such workload")
	// ErrConflict says that the container or claim is no longer in the state that
	// the caller expected: somebody else was first.
	ErrConflict = errors.New("the state has changed")
	// ErrInUse says that a claim holds the container.
	ErrInUse = errors.New("the container is claimed")
)

// isConflict says whether a change came too late: somebody else was first, or
// there is no such record any more.
func isConflict(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrContainerNotFound)
}
