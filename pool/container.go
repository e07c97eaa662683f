package pool

import (
	"errors"
	"time"

	"github.com/hostler/hostler/runtime"
)

// State is the state of a container in its lifecycle:
//
//	creating ─→ idle ─→ claimed ─→ destroying ─→ destroyed
//	claimed ─→ idle    (released and reusable)
//	idle ─→ destroying
//	creating ─→ destroying
type State string

// The states of a container. A Destroyed one exists only as a record.
const (
	Creating   State = "creating"
	Idle       State = "idle"
	Claimed    State = "claimed"
	Destroying State = "destroying"
	Destroyed  State = "destroyed"
)

// States returns every state, in the order of a container's lifecycle.
func States() []State { return []State{Creating, Idle, Claimed, Destroying, Destroyed} }

// Health is the result of Hostler's own checks of a container.
type Health string

// The health of a container.
const (
	Healthy   Health = "healthy"
	Unhealthy Health = "unhealthy" // its health check fails
	Exited    Health = "exited"    // its main process has exited
)

// Container is the record of one container.
type Container struct {
	ID       string `json:"id"`
	Workload string `json:"workload"`
	Revision string `json:"revision"`
	State    State  `json:"state"`
	Health   Health `json:"health,omitempty"`
	// Tenant is the tenant whose data may be in the container: the tenant of its
	// claim or of its last claim. For a claimed container that is not wiped yet,
	// it is the previous tenant. It is empty until the first reservation.
	Tenant string `json:"tenant,omitempty"`
	// Claim is the live claim that has the container.
	Claim string `json:"claim,omitempty"`
	// Snapshot is the snapshot of the tenant's state that was last downloaded
	// into the container or uploaded from it.
	Snapshot string           `json:"snapshot,omitempty"`
	Endpoint runtime.Endpoint `json:"endpoint"`
	Node     string           `json:"node,omitempty" doc:"The machine that it runs on, since it was idle for the first time."`
	Reason   string           `json:"reason,omitempty" doc:"Why it is being destroyed, was destroyed, or is not healthy."`
	// ReasonChain is what was being done when what Reason has went wrong.
	ReasonChain []string    `json:"reason_chain,omitempty" doc:"What was being done when that went wrong, outermost first."`
	Output      OutputState `json:"output,omitempty" doc:"Whether its last output is kept, after a failure, for when it is gone: kept, or wanted while it is still to be read."`
	Forced      Forced      `json:"forced,omitempty" doc:"How an operator has forced its destruction: after_hooks, or now without its pre_destroy hooks. done: it is removed, and its claim is not released yet."`
	// Fence increases whenever another flow or another server becomes the owner
	// of the container. Restart, Stop, RecordBaseline and Wipe carry it, so that the
	// container rejects those of a previous owner: see runtime.ErrStaleFence.
	Fence int64 `json:"-"`
	// EventCommands is whether a command of an event hook was ever started in it:
	// the next flow ends it.
	EventCommands bool `json:"-"`
	// ImageHooks are the hooks of its image, if its workload has ImageHooks. They are
	// written once, before the first of them runs and before any tenant.
	ImageHooks []runtime.ImageHook `json:"-"`
	// Protocol is the protocol version of its shim. It never changes.
	Protocol  int       `json:"protocol" doc:"The protocol version of its shim: that of the server that created it."`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at" doc:"When its state last changed."`
	// WipedAt is when it was last wiped for a claim. Earlier output of its main
	// process must not be shown to the tenant of that claim.
	WipedAt *time.Time `json:"wiped_at,omitempty" doc:"When it was last wiped for a claim."`
}

// FirstFence is the fence of a container that is being created.
const FirstFence = runtime.FirstFence

// Errors of this package.
var (
	// ErrFull is returned if a pool has max_size containers.
	ErrFull = errors.New("pool is full")
	// ErrContainerNotFound is returned if there is no record of the container.
	ErrContainerNotFound = errors.New("no such container")
	// ErrWorkloadNotFound is returned if no workload of that name is applied.
	ErrWorkloadNotFound = errors.New("no such workload")
	// ErrConflict is returned if a container or claim is no longer in the state
	// that the caller expected, because of a concurrent change.
	ErrConflict = errors.New("state has changed")
	// ErrNoOutput is returned for a container that is gone and of which no output is
	// kept.
	ErrNoOutput = errors.New("no output of it is kept")
	// ErrInUse is returned if the container is claimed.
	ErrInUse = errors.New("container is claimed")
)

// isConflict reports whether a change lost to a concurrent one, or whether its
// record no longer exists.
func isConflict(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrContainerNotFound)
}
